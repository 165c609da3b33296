"""What networks are trained for: inputs, targets, and the loss between them.

A classifier learns from one data set like all the others of its zoo. An implicit representation fits a signal, its
*item*, and has targets of its own; several networks of one item are its *views*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from ..data import DataSet, fetch, load
from ..data.catalogue import entry
from ..data.dataset import Split
from ..data.splits import disjoint_split
from ..running.outputs import Loss
from .tables import Table, table_shape

SplitName = Literal["train", "test"]
TASKS = ("classify", "table", "images", "waves")
SIDES = ("all", "first", "second")
POINTS = 256
"""Samples of a wave."""


class Task(Protocol):
    """Samples and their loss.

    Attributes:
        loss: Mean loss of outputs and targets.
        own: Whether every item has targets of its own; inputs are the same for all.
    """

    loss: Loss
    own: bool

    def samples(self, part: SplitName, item: int = 0) -> Split:
        """Inputs and targets to learn from (``train``) or to be judged on (``test``)."""


class Classify:
    """Name the class of an image; ``side`` is one of two disjoint parts of the training images, or all of them."""

    own = False

    def __init__(self, data: DataSet, side: str = "all") -> None:
        self.loss: Loss = F.cross_entropy
        self.train, self.test = data.train, data.test
        if side != "all":
            index = disjoint_split(data.train[1])[SIDES.index(side) - 1]
            self.train = (data.train[0][index], data.train[1][index])

    def samples(self, part: SplitName, item: int = 0) -> Split:
        return self.train if part == "train" else self.test


class Waves:
    """Fit f(x) = sin(a x) on [-π, π], a ~ U(0.5, 10) drawn by the item's number; inputs are x / π."""

    own = True
    low, high = 0.5, 10.0

    def __init__(self) -> None:
        self.loss: Loss = F.mse_loss
        self.train = torch.linspace(-1, 1, POINTS)[:, None]
        self.test = (self.train[1:] + self.train[:-1]) / 2

    def frequency(self, item: int) -> float:
        """The item's a."""
        u = torch.rand((), generator=torch.Generator().manual_seed(item), dtype=torch.float64)
        return self.low + (self.high - self.low) * float(u)

    def samples(self, part: SplitName, item: int = 0) -> Split:
        x = self.train if part == "train" else self.test
        return x, torch.sin(self.frequency(item) * math.pi * x)


class Images:
    """Fit an image, the item-th of the training set: coordinates in [-1, 1]² to normalised pixels.

    All pixels are learned, so train and test are the same.
    """

    own = True

    def __init__(self, data: DataSet) -> None:
        self.loss: Loss = F.mse_loss
        self.images = data.train[0]
        _, height, width = data.shape
        rows, columns = torch.linspace(-1, 1, height), torch.linspace(-1, 1, width)
        self.grid = torch.cartesian_prod(rows, columns)

    def samples(self, part: SplitName, item: int = 0) -> Split:
        if item >= len(self.images):
            raise ValueError(f"image {item} was asked for, but the data set has {len(self.images)}; lower count")
        return self.grid, self.images[item].flatten(1).T.contiguous()


@lru_cache(maxsize=16)  # one copy per process, however many zoos use it
def make_task(name: str, data: str | None, shape: tuple[int, int, int] | None, side: str = "all") -> Task:
    """A task by name: ``classify`` or ``images`` of a data set, ``table``, or ``waves``. A missing set is fetched."""
    check_task(name, data, side)
    if name == "waves" or data is None:
        return Waves()
    if name == "table":
        return Table(data)
    images = loaded(data, shape)
    return Classify(images, side) if name == "classify" else Images(images)


def loaded(data: str, shape: Sequence[int] | None) -> DataSet:
    """A data set by name, fetched if it is missing."""
    try:
        return load(data, shape=shape)
    except FileNotFoundError:
        fetch(data)
        return load(data, shape=shape)


def check_task(name: str, data: str | None, side: str = "all") -> None:
    """Refuse a task that there is not, or that makes no sense with its data set."""
    if name not in TASKS:
        raise ValueError(f"no task {name!r}; choose classify, table, images or waves")
    if data is None and name != "waves":
        raise ValueError(f"task {name} needs a data set")
    if side not in SIDES:
        raise ValueError(f"no side {side!r} of a data set; choose one of {', '.join(SIDES)}")
    if name == "images" and side != "all":
        raise ValueError(f"task images fits every image by itself: a side has no meaning, but side={side!r} was given")


def example_input(name: str, data: str | None, shape: tuple[int, int, int] | None) -> Tensor:
    """Two inputs of the shape that a task's networks take; no data is loaded."""
    if name == "classify" and data is not None:
        size: tuple[int, ...] = shape or entry(data).shape
    elif name == "table" and data is not None:
        size = table_shape(data)[:1]
    else:
        size = (1,) if name == "waves" else (2,)
    return torch.randn(2, *size, generator=torch.Generator().manual_seed(0))
