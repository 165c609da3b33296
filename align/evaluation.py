"""Judge aligners by the barrier between held-out networks of a zoo."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from wsgraph.modules import with_tensors

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
    aligner.eval()
    device = aligner.s.device
    found = aligner([zoo.graph(i).to(device) for i, _ in pairs], [zoo.graph(j).to(device) for _, j in pairs])
    moved = [x.permutation.apply(zoo.tensors(j)) for x, (_, j) in zip(found, pairs, strict=True)]
    return [with_tensors(zoo.template, tensors).eval() for tensors in moved]


def validation_ratio(aligner: DeepAlign, zoos: Sequence[Zoo]) -> float:
    """Barrier between validation networks, relative to that of networks that are not aligned; mean over zoos.

    The networks never took part in training the aligner; the samples are those the networks learned from. Zoos whose
    networks have no barrier between them say nothing about an aligner.
    """
    ratios = []
    for zoo in zoos:
        pairs = pairs_of(zoo, "val", VALIDATION_PAIRS)
        if pairs:
            naive, found = (
                float(line_barrier(zoo, pairs, moved, "train", VALIDATION_SAMPLES, VALIDATION_POINTS))
                for moved in ([zoo.module(j) for _, j in pairs], aligned(aligner, zoo, pairs))
            )
            if naive > 0:
                ratios.append(found / naive)
    if not ratios:
        raise ValueError(
            "no zoo has two validation networks with a barrier between them; build more (count=), train them longer "
            "(data.epochs=), or set optim.validate=0"
        )
    return sum(ratios) / len(ratios)
