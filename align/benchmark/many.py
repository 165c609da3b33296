"""Eight networks in one frame: the learned aligner that sees all of them at once, pair by pair, and weight matching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import torch
from torch import nn

from ..judging.barrier import barrier
from ..judging.compare import mean_with_error, share_with_error
from ..many import Universe, match_many
from ..matching import match
from ..merging.merge import merge
from ..progress import progress
from ..zoo import Zoo, build
from ..zoo.families import family
from .sheet import Sheet
from .variants import zoos

TOGETHER, SETS = 8, 3
"""Networks that are averaged, and how many disjoint sets of them a zoo gives."""
FAMILIES = {"SiLU 64-40³-10": 8, "ReLU 64-96-72-10": 40}
"""Digits MLPs among the families, by their numbers."""


def _pair_by_pair(models: Sequence[nn.Module]) -> Universe:
    found = [match(models[0], model, "deep_align").permutation for model in models]
    return Universe(tuple(found))


WAYS: dict[str, Callable[[Sequence[nn.Module]], Universe]] = {
    "weight matching, to the first": lambda models: match_many(models, "reference"),
    "weight matching, universe": lambda models: match_many(models, "universe"),
    "deep align, to the first, pair by pair": _pair_by_pair,
    "deep align, to the first, all at once": lambda models: match_many(models, "reference", method="deep_align"),
    "deep align, universe": lambda models: match_many(models, "universe", method="deep_align"),
}


def compare() -> None:
    """Print, for every zoo and way, the barrier of all pairs, and what the average of all networks loses."""
    columns = ("networks and way", "barrier of all pairs", "average's loss above theirs", "average's accuracy")
    sheet = Sheet("many", f"{TOGETHER} networks in one frame, mean over {SETS} sets of them", columns)
    judged = {"ReLU 64-48³-10": zoos("training", TOGETHER * SETS)[0]}
    judged |= {name: build(family(k), TOGETHER * SETS) for name, k in FAMILIES.items()}
    for name, zoo in judged.items():
        with progress(name, len(WAYS) * SETS) as step:
            for label, way in WAYS.items():
                found = []
                for k in range(SETS):
                    found.append(_judge(zoo, list(zoo.records)[k * TOGETHER : (k + 1) * TOGETHER], way))
                    step(note=label)
                pairs, loss, accuracy = torch.tensor(found).T
                sheet.add(f"{name}: {label}", mean_with_error(pairs), mean_with_error(loss), share_with_error(accuracy))
    sheet.close()


@torch.no_grad()
def _judge(
    zoo: Zoo, numbers: Sequence[int], way: Callable[[Sequence[nn.Module]], Universe]
) -> tuple[float, float, float]:
    """Mean barrier of all pairs; the average's loss above that of its members, and its accuracy."""
    models = [zoo.module(n) for n in numbers]
    moved = way(models).apply(models)
    x, y = zoo.task.samples("test")
    left, right = zip(*combinations(moved, 2), strict=True)
    pairs = float(barrier(list(left), list(right), zoo.task.loss, (x, y), points=3))
    answers, singly = merge(*moved)(x), [float(zoo.task.loss(model(x), y)) for model in moved]
    loss = float(zoo.task.loss(answers, y)) - sum(singly) / len(singly)
    return pairs, loss, float((answers.argmax(1) == y).double().mean())
