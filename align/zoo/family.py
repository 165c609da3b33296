"""A family: networks of one architecture trained on one task, split into training and test networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wsgraph import Spec, WeightGraph, to_graph, trace
from wsgraph.modules import with_tensors

from .together import Make, Recipe, Split, seeded, train_together

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Family:
    """Networks to learn from, and networks to be judged on.

    Attributes:
        name: For tables.
        template: A module of the architecture.
        spec: Its symmetry.
        data: Inputs and labels the networks were trained on.
        held: Inputs and labels they never saw.
        train: State dicts of the training networks.
        test: State dicts of the held-out networks.
    """

    name: str
    template: nn.Module
    spec: Spec
    data: Split
    held: Split
    train: list[Tensors]
    test: list[Tensors]

    def graph(self, tensors: Tensors) -> WeightGraph:
        """A network as a graph."""
        return to_graph(tensors, spec=self.spec)

    def module(self, tensors: Tensors) -> nn.Module:
        """A network as a module."""
        return with_tensors(self.template, tensors).eval()

    def test_pairs(self, count: int) -> tuple[list[nn.Module], list[nn.Module]]:
        """Up to ``count`` pairs of different held-out networks."""
        modules = [self.module(t) for t in self.test]
        pairs = [(i, (i + shift) % len(modules)) for shift in range(1, len(modules)) for i in range(len(modules))]
        chosen = [(i, j) for i, j in pairs if i != j][:count]
        return [modules[i] for i, _ in chosen], [modules[j] for _, j in chosen]


def stack(networks: Sequence[Tensors]) -> Tensors:
    """Several state dicts as one with a leading axis."""
    return {k: torch.stack([n[k] for n in networks]) for k in networks[0]}


def build_family(
    name: str,
    make: Make,
    data: Split,
    held: Split,
    train: int,
    test: int,
    recipe: Recipe,
    together: int = 48,
    seed: int = 0,
) -> Family:
    """Train ``train + test`` networks, ``together`` at a time."""
    seeds = [10_000 * seed + k for k in range(train + test)]
    networks: list[Tensors] = []
    for start in range(0, len(seeds), together):
        networks += train_together(make, seeds[start : start + together], data, recipe)
    template = seeded(make, seed).eval()
    spec = trace(template, data[0][:2])
    return Family(name, template, spec, data, held, networks[:train], networks[train:])
