"""Data sets as tensors in memory, split, normalised and in the shape a network takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from wsgraph.folder import cache_folder

from . import digits
from .catalogue import Entry, entry
from .store import open_set

VALIDATION = 0.1
"""The part of the training set that is held out for validation."""
CHUNK = 2_000
"""Images converted at a time."""
LUMA = (0.299, 0.587, 0.114)
"""What red, green and blue count for in a grey image."""

Split = tuple[Tensor, Tensor]
"""Inputs and targets; of images, float32 [N, C, H, W] and labels int64 [N]."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """A labelled set of images in memory.

    Args:
        name: As in :func:`load`.
        train, val, test: Pairs (inputs float32 [N, C, H, W], normalised; labels int64 [N]).
        classes: The names of the labels 0, 1, ...
        shape: (C, H, W) of an input.
    """

    name: str
    train: Split
    val: Split
    test: Split
    classes: tuple[str, ...]
    shape: tuple[int, int, int]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{k}={len(getattr(self, k)[0])}" for k in ("train", "val", "test"))
        return f"DataSet({self.name}, {sizes}, classes={len(self.classes)}, shape={self.shape})"


def load(
    name: str = "digits",
    *,
    shape: Sequence[int] | None = None,
    seed: int = 0,
    folder: Path | str | None = None,
) -> DataSet:
    """Load a data set: official train and test sets, 10 % of train held out as validation, normalised.

    Args:
        name: ``digits`` (embedded, no files), ``mnist``, ``fashion_mnist``, ``cifar10`` or ``stl10``.
        shape: Channels, height and width to resize to, such as (3, 32, 32) for a VGG; as published by default.
        seed: Chooses the validation images; the test set is always the same.
        folder: The cache folder, if not that of ``WSGRAPH_DATA``.

    Raises:
        FileNotFoundError: If the set is not in the cache folder; the message says how to get it there.
        ValueError: If its file there is damaged, or there is no set of that name.
    """
    found = entry(name)
    raw = digits.read() if found.embedded else open_set(found, Path(folder) if folder else cache_folder())
    shape = size_of(shape or found.shape)
    held, rest = _validation(len(raw["train_labels"]), seed)
    train_images, train_labels = raw["train_images"], raw["train_labels"].long()
    return DataSet(
        name=name,
        train=(_inputs(train_images[rest], found, shape), train_labels[rest]),
        val=(_inputs(train_images[held], found, shape), train_labels[held]),
        test=(_inputs(raw["test_images"], found, shape), raw["test_labels"].long()),
        classes=found.classes,
        shape=shape,
    )


def size_of(shape: Sequence[int]) -> tuple[int, int, int]:
    """Channels, height and width, checked."""
    if len(shape) != 3 or not all(isinstance(n, int) and n > 0 for n in shape):
        raise ValueError(f"shape is {shape}, expected three positive numbers: channels, height, width")
    channels, height, width = shape
    return channels, height, width


def _validation(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Indices of the validation images and of the others, both in the official order."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    count = int(n * VALIDATION)
    return order[:count].sort().values, order[count:].sort().values


def _inputs(images: Tensor, found: Entry, shape: tuple[int, int, int]) -> Tensor:
    """uint8 [N, C, H, W] as normalised float32 of the given shape, a chunk at a time."""
    inputs = torch.empty(len(images), *shape)
    for start in range(0, len(images), CHUNK):
        chunk = images[start : start + CHUNK].float().div_(found.white * found.std).sub_(found.mean / found.std)
        inputs[start : start + CHUNK] = resize(chunk, shape)
    return inputs


def resize(images: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """Float images [N, C, H, W] in another (C, H, W): bilinear, smoothed when shrinking; grey repeated or averaged."""
    channels, *size = shape
    if channels < images.shape[1]:
        images = _recolour(images, channels)
    if list(images.shape[2:]) != size:
        images = F.interpolate(images, size=size, mode="bilinear", antialias=True)
    return _recolour(images, channels)  # after resizing: three times less to do


def _recolour(images: Tensor, channels: int) -> Tensor:
    given = images.shape[1]
    if given == channels:
        return images
    if given == 1:
        return images.expand(-1, channels, -1, -1)
    if (given, channels) == (3, 1):
        return (images * images.new_tensor(LUMA)[:, None, None]).sum(1, keepdim=True)
    raise ValueError(f"cannot turn images of {given} channels into {channels}: only 1 into any, and 3 into 1")
