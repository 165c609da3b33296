"""Judge aligners by the barrier between held-out networks of a zoo."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import nn

from wsgraph.modules import with_tensors
from wsgraph.shell import shell

from ..deep_align import DeepAlign
from ..matching import match
from ..progress import progress
from ..zoo import Zoo
from ..zoo.task import SplitName
from .barrier import Barrier, barrier

Pairs = list[tuple[int, int]]
VALIDATION_PAIRS, VALIDATION_SAMPLES = 8, 500
NOISE_SAMPLES = 1_000
"""For activation matching as a reference."""
NOTHING = 0.02
"""Share of the barrier without alignment that is too little to care about."""


def pairs_of(zoo: Zoo, part: str, count: int) -> Pairs:
    """Up to ``count`` pairs of networks of a part: views of one item where there are items, else different networks."""
    members = zoo.members(part)
    if zoo.task.own:
        views = zoo.config.views
        found = [(i, i - i % views + (i + 1) % views) for i in members[::views] if views > 1]
    else:
        shifts = range(1, len(members))
        found = [(members[i], members[(i + s) % len(members)]) for s in shifts for i in range(len(members))]
    return found[:count]


def line_barrier(
    zoo: Zoo,
    pairs: Pairs,
    moved: Sequence[nn.Module],
    part: SplitName = "test",
    samples: int | None = None,
    points: int = 25,
) -> Barrier:
    """Barrier between the first networks of ``pairs`` and the (aligned) second ones.

    BatchNorm statistics are measured anew at every point of the line.

    Args:
        zoo: Where the networks come from.
        pairs: Their numbers.
        moved: The aligned second networks.
        part: Samples the networks learned from, or others.
        samples: At most this many of them.
        points: On the line.
    """
    left = [zoo.module(i) for i, _ in pairs]
    reset = zoo.task.samples("train")[0][:1_000] if any(True for _ in zoo.template.buffers()) else None

    def judge(a: Sequence[nn.Module], b: Sequence[nn.Module], item: int) -> Barrier:
        x, y = zoo.task.samples(part, item)
        return barrier(a, b, zoo.task.loss, (x[:samples], y[:samples]), points, reset)

    if not zoo.task.own:
        return judge(left, list(moved), 0)
    each = [judge([a], [b], zoo.config.item_of(i)) for a, b, (i, _) in zip(left, moved, pairs, strict=True)]
    return Barrier(each[0].points, torch.cat([x.loss for x in each]))


@torch.no_grad()
def aligned(aligner: DeepAlign, zoo: Zoo, pairs: Pairs) -> list[nn.Module]:
    """The second networks of ``pairs``, aligned to the first ones in one call."""
    device = aligner.s.device
    found = shell(aligner).eval()(
        [zoo.graph(i).to(device) for i, _ in pairs], [zoo.graph(j).to(device) for _, j in pairs]
    )
    moved = [x.permutation.apply(zoo.tensors(j)) for x, (_, j) in zip(found, pairs, strict=True)]
    return [with_tensors(zoo.template, tensors).eval() for tensors in moved]


@dataclass(frozen=True)
class Look:
    """What validation saw of an aligner.

    Attributes:
        value: The smaller the better: geometric mean over zoos of the barrier relative to the best of weight matching
            and activation matching on noise.
        ratios: Of every zoo; 1 for one without two validation networks.
    """

    value: float
    ratios: tuple[float, ...]


class Validation:
    """Judges aligners in training: loss half way between validation networks, above that of the networks.

    The networks never took part in training the aligner; the samples are those the networks learned from.

    Args:
        zoos: Where the networks come from; those that have two validation networks count alike.
    """

    def __init__(self, zoos: Sequence[Zoo]) -> None:
        self.zoos = zoos
        self.pairs = [pairs_of(zoo, "val", VALIDATION_PAIRS) for zoo in zoos]
        if not any(self.pairs):
            raise ValueError("no zoo has two validation networks; build more (zoo.count=), or set optim.validate=0")

    def __call__(self, aligner: DeepAlign) -> Look:
        """Look at all zoos."""
        ratios = []
        for zoo, pairs, (floor, reference) in zip(self.zoos, self.pairs, self.references, strict=True):
            found = _bump(zoo, pairs, aligned(aligner, zoo, pairs)) if pairs else 0.0
            ratios.append((found + floor) / (reference + floor) if pairs else 1.0)
        logs = [math.log(r) for r, pairs in zip(ratios, self.pairs, strict=True) if pairs]
        return Look(math.exp(sum(logs) / len(logs)), tuple(ratios))

    @cached_property
    def references(self) -> list[tuple[float, float]]:
        """Of every zoo, what is next to nothing there, and the best that the classic methods reach without data."""
        found = []
        with progress("weight and activation matching, to compare with", len(self.zoos)) as step:
            for zoo, pairs in zip(self.zoos, self.pairs, strict=True):
                found.append(_reference(zoo, pairs) if pairs else (1.0, 0.0))
                step()
        return found


def _reference(zoo: Zoo, pairs: Pairs) -> tuple[float, float]:
    def matched(method: str, **options: Any) -> float:
        example = zoo.config.example_input()
        found = [match(zoo.module(i), zoo.module(j), method, example_input=example, **options) for i, j in pairs]
        return _bump(zoo, pairs, [x.apply(zoo.module(j)) for x, (_, j) in zip(found, pairs, strict=True)])

    naive = _bump(zoo, pairs, [zoo.module(j) for _, j in pairs])
    noise = matched("activation_matching", data="noise", samples=NOISE_SAMPLES)
    return max(NOTHING * naive, 1e-12), min(matched("weight_matching"), noise)


def _bump(zoo: Zoo, pairs: Pairs, moved: Sequence[nn.Module]) -> float:
    return float(line_barrier(zoo, pairs, moved, "train", VALIDATION_SAMPLES, 3))
