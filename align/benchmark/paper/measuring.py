"""Barriers of methods between test networks, as plain numbers that a notebook can keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from ...deep_align import DeepAlign
from ...judging.barrier import Barrier
from ...judging.compare import Method, moved
from ...judging.evaluation import line_barrier
from ...merging.merge import merge
from ...progress import progress
from .settings import Settings
from .subjects import Pair

Measured = dict[str, Any]
"""Losses on the lines of all pairs, for every aligner that a method was used with: ``[seeds, pairs, points]``."""
TEMPERATURE = "not aligned, temperature"


@dataclass(frozen=True)
class Entry:
    """A method of the contest.

    Attributes:
        method: What is called.
        aligners: Aligners it is called with, one after the other; none for methods without.
        slow: Whether it optimises every pair for long.
    """

    method: Method
    aligners: Sequence[DeepAlign] = field(default=())
    slow: bool = False

    @property
    def label(self) -> str:
        return self.method.label


def measure(entry: Entry, pairs: Sequence[Pair], settings: Settings) -> Measured:
    """Losses, and accuracies where there are classes, along the lines of all pairs."""
    chosen = pairs[: settings.slow] if entry.slow else pairs
    runs = [replace(entry.method, options={**entry.method.options, "aligner": a}) for a in entry.aligners]
    lines: list[list[Barrier]] = []
    with progress(entry.label, len(chosen) * max(len(runs), 1)) as step:
        for method in runs or [entry.method]:
            lines.append([])
            for zoo, i, j in chosen:
                other = moved(zoo, (i, j), method, settings.images)
                lines[-1].append(line_barrier(zoo, [(i, j)], [other], "test", settings.samples, settings.points))
                step()
    first = lines[0][0]
    accuracy = None if first.accuracy is None else [[line.accuracy[0].tolist() for line in run] for run in lines]  # type: ignore[index]
    losses = [[line.loss[0].tolist() for line in run] for run in lines]
    return {"points": first.points.tolist(), "loss": losses, "accuracy": accuracy}


def curve(measured: Measured, count: int | None = None) -> Barrier:
    """The lines of the first ``count`` pairs; where there are several aligners, those of the first."""
    return Barrier(torch.tensor(measured["points"]), torch.tensor(measured["loss"][0][:count]))


def of_pairs(measured: Measured, what: str = "barrier") -> Tensor:
    """Barrier, or ``auc``, of every pair, mean over aligners: ``[pairs]``."""
    points = torch.tensor(measured["points"])
    return torch.stack([getattr(Barrier(points, torch.tensor(run)), what) for run in measured["loss"]]).mean(0)


def tempered(pairs: Sequence[Pair], settings: Settings) -> Measured:
    """Without alignment, the logits half way divided by the temperature that is best on training samples.

    A barrier may come from answers that are right and too timid; this says how much of it does. There are three points
    only: the networks, and half way between them.
    """
    losses = [_tempered(zoo, i, j, settings) for zoo, i, j in pairs]
    return {"points": [0.0, 0.5, 1.0], "loss": [losses], "accuracy": None}


@torch.no_grad()
def _tempered(zoo: Any, i: int, j: int, settings: Settings) -> list[float]:
    a, b = zoo.module(i), zoo.module(j)
    middle = _half_way(a, b, zoo)
    (x, y), (u, v) = ((t[:n] for t in zoo.task.samples(part)) for part, n in
                      (("train", settings.images), ("test", settings.samples)))  # fmt: skip
    said = middle(x)
    grid = torch.logspace(-2, 1, 121).tolist()
    best = min(grid, key=lambda t: float(zoo.task.loss(said / t, y)))
    ends = [float(zoo.task.loss(m(u), v)) for m in (b, a)]
    return [ends[0], float(zoo.task.loss(middle(u) / best, v)), ends[1]]


def _half_way(a: nn.Module, b: nn.Module, zoo: Any) -> nn.Module:
    reset: dict[str, Any] = {}
    if any(True for _ in zoo.template.buffers()):
        reset = {"repair": "batchnorm", "data": zoo.task.samples("train")[0][:1_000]}
    return merge(a, b, **reset).eval()


def ratio(measured: Measured, reference: Measured, count: int) -> float | None:
    """Mean barrier relative to another method's, on the first ``count`` pairs; none unless both have them."""
    ours, theirs = (of_pairs(found)[:count].tolist() for found in (measured, reference))
    if min(len(ours), len(theirs)) < count:
        return None
    below = mean(theirs)
    return mean(ours) / below if below else None
