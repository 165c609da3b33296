"""Judge aligners by the barrier between held-out networks of a zoo."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import nn

from wsgraph.modules import with_tensors
from wsgraph.shell import shell

from .barrier import Barrier, barrier
from .deep_align import DeepAlign
from .zoo import Zoo
from .zoo.task import Part

Pairs = list[tuple[int, int]]
VALIDATION_PAIRS = 16
VALIDATION_SAMPLES = 1_000
VALIDATION_POINTS = 7


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
    part: Part = "test",
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


class Validation:
    """Judges aligners in training: the barrier between validation networks, relative to that without alignment.

    The networks never took part in training the aligner; the samples are those the networks learned from.

    Args:
        zoos: Where the networks come from; those that have two validation networks count alike.
    """

    def __init__(self, zoos: Sequence[Zoo]) -> None:
        self.pairs = [(zoo, pairs) for zoo in zoos if (pairs := pairs_of(zoo, "val", VALIDATION_PAIRS))]
        if not self.pairs:
            raise ValueError("no zoo has two validation networks; build more (count=), or set optim.validate=0")

    def __call__(self, aligner: DeepAlign) -> float:
        """Mean over zoos of barrier / barrier without alignment."""
        found = [_validation_barrier(zoo, pairs, aligned(aligner, zoo, pairs)) for zoo, pairs in self.pairs]
        ratios = [x / naive if naive else 1.0 for x, naive in zip(found, self.naive, strict=True)]  # 0: nothing to gain
        return sum(ratios) / len(ratios)

    @cached_property
    def naive(self) -> list[float]:
        """Barriers without alignment, measured once."""
        return [_validation_barrier(zoo, pairs, [zoo.module(j) for _, j in pairs]) for zoo, pairs in self.pairs]


def _validation_barrier(zoo: Zoo, pairs: Pairs, moved: Sequence[nn.Module]) -> float:
    return float(line_barrier(zoo, pairs, moved, "train", VALIDATION_SAMPLES, VALIDATION_POINTS))
