"""Augmentations of networks, the paper's f_aug: each takes a WeightGraph and returns a new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .rescale import random_factors, rescale
from .ties import replace_tied, untied

if TYPE_CHECKING:
    from .graph import WeightGraph

_STATISTICS = ("mean", "variance")


def _change(graph: WeightGraph, function: Callable[[Tensor], Tensor]) -> WeightGraph:
    """Apply ``function`` to every trainable tensor; norm statistics and counters stay."""
    trainable = {
        name: tensor
        for name, tensor in graph.tensors.items()
        if tensor.is_floating_point() and graph.spec.params[name].role not in _STATISTICS
    }
    changed = {name: function(tensor) for name, tensor in untied(trainable).items()}
    return graph.replace(replace_tied(graph.tensors, changed))


def _rand(tensor: Tensor, generator: torch.Generator | None, normal: bool = False) -> Tensor:
    device = generator.device if generator is not None else tensor.device
    draw = torch.randn if normal else torch.rand
    return draw(tensor.shape, generator=generator, device=device).to(tensor)


@dataclass(frozen=True)
class Noise:
    """Gaussian noise: W + std · σ(W) · ε, ε ~ N(0, 1), with σ the standard deviation of each tensor's entries."""

    std: float = 0.01

    def __call__(self, graph: WeightGraph, generator: torch.Generator | None = None) -> WeightGraph:
        def noisy(t: Tensor) -> Tensor:
            scale = t.std(unbiased=False) if t.numel() > 1 else t.abs().mean()
            return t + self.std * scale * _rand(t, generator, normal=True)

        return _change(graph, noisy)


@dataclass(frozen=True)
class Mask:
    """Binary noise: each weight is set to zero with probability ``p``, the others scaled by 1 / (1 - p)."""

    p: float = 0.05

    def __post_init__(self) -> None:
        if not 0 <= self.p < 1:
            raise ValueError(f"Mask: p is the share of weights set to zero, expected 0 <= p < 1, got {self.p}")

    def __call__(self, graph: WeightGraph, generator: torch.Generator | None = None) -> WeightGraph:
        return _change(graph, lambda t: t * (_rand(t, generator) >= self.p) / (1 - self.p))


@dataclass(frozen=True)
class Scale:
    """Positive scaling of every neuron the function does not depend on the scale of, log-uniform in [low, high].

    Preserves the function exactly; does nothing to networks without such neurons (see ``spec.scalings``).
    """

    low: float = 0.9
    high: float = 1.1

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high:
            raise ValueError(f"Scale: factors are positive, expected 0 < low <= high, got {self.low} and {self.high}")

    def __call__(self, graph: WeightGraph, generator: torch.Generator | None = None) -> WeightGraph:
        return graph.replace(
            rescale(graph.tensors, graph.spec, random_factors(graph.spec, self.low, self.high, generator))
        )


@dataclass(frozen=True)
class Compose:
    """Several augmentations, one after the other."""

    steps: tuple[Callable[..., WeightGraph], ...]

    def __call__(self, graph: WeightGraph, generator: torch.Generator | None = None) -> WeightGraph:
        for step in self.steps:
            graph = step(graph, generator)
        return graph
