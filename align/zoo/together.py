"""Train networks: many small ones at once, or a large one by itself.

Parameters of K networks are stacked on a leading axis and the forward pass runs over it, so that K small matrix
products become one. Each network has its own initialisation and its own order of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from ..running.layout import channels_last, suits_channels_last
from ..running.networks import Tensors
from ..running.outputs import Loss
from ..running.stacked import over_networks
from .chain import chain
from .varied import INITIALISATIONS

OPTIMISERS = ("adam", "sgd")


@dataclass(frozen=True)
class Recipe:
    """How a network is trained.

    Args:
        epochs: Passes over the data.
        batch: Samples per step; all of them if there are fewer.
        lr: Learning rate.
        optimiser: ``adam`` (with decoupled weight decay), or ``sgd`` with momentum 0.9.
        decay: Weight decay.
        init: How weights are drawn: ``default``, or one of :data:`~align.zoo.varied.INITIALISATIONS`.
    """

    epochs: int = 5
    batch: int = 128
    lr: float = 1e-3
    optimiser: str = "adam"
    decay: float = 0.0
    init: str = "default"

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1:
            raise ValueError(f"got epochs={self.epochs}, batch={self.batch}: expected at least 1")
        if not (0 < self.lr < math.inf and 0 <= self.decay < math.inf):
            raise ValueError(f"got lr={self.lr}, decay={self.decay}: expected an lr above 0 and a decay of at least 0")
        if self.optimiser not in OPTIMISERS or self.init not in ("default", *INITIALISATIONS):
            raise ValueError(
                f"got optimiser={self.optimiser!r}, init={self.init!r}: expected one of {', '.join(OPTIMISERS)}, "
                f"and one of default, {', '.join(INITIALISATIONS)}"
            )

    def steps(self, count: int) -> int:
        """Optimiser steps with ``count`` samples."""
        return self.epochs * max(1, count // self.batch)

    def optimise(self, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
        """A new optimiser."""
        if self.optimiser == "sgd":
            return torch.optim.SGD(parameters, lr=self.lr, momentum=0.9, weight_decay=self.decay)
        kind = torch.optim.AdamW if self.decay else torch.optim.Adam
        return kind(parameters, lr=self.lr, weight_decay=self.decay, fused=True)


def train_together(
    models: Sequence[nn.Module],
    seeds: Sequence[int],
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    loss: Loss = F.cross_entropy,
    own: bool = False,
    step: Callable[[], None] = lambda: None,
) -> list[Tensors]:
    """Train untrained networks of one architecture, all at once (in each step in turn, if torch cannot vectorise).

    Args:
        models: The networks (without BatchNorm: its statistics are updated in place).
        seeds: One per network, for the order of the data.
        x: Inputs ``[N, ...]``.
        y: Targets ``[N, ...]``, or ``[K, N, ...]`` if every network has its ``own``.
        recipe: Epochs, batch size, learning rate.
        loss: Mean loss of outputs and targets.
        own: Whether y has a leading axis of networks.
        step: Called after every step.

    Returns:
        One state dict per network.
    """
    if any(True for _ in models[0].buffers()):
        raise ValueError("networks with buffers (BatchNorm) cannot be trained together; use train_alone (together=1)")
    stacked, _ = stack_module_state(list(models))
    batches = orders(seeds, len(x), recipe)
    return unstacked(train_stacked(models[0], stacked, batches, x, y, recipe, loss, own, step))


def train_stacked(
    template: nn.Module,
    stacked: Tensors,
    batches: Iterable[Tensor],
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    loss: Loss = F.cross_entropy,
    own: bool = False,
    step: Callable[[], None] = lambda: None,
) -> Tensors:
    """Train K networks whose tensors are stacked on a leading axis; see :func:`train_together`.

    Args:
        template: A network of their architecture.
        stacked: Where they start.
        batches: Indices into ``x`` for every step, ``[K, batch]``.
        x: Inputs ``[N, ...]``.
        y: Targets ``[N, ...]``, or ``[K, N, ...]`` if every network has its ``own``.
        recipe: Of the optimiser.
        loss: Mean loss of outputs and targets.
        own: Whether y has a leading axis of networks.
        step: Called after every step.
    """
    params = {k: p.detach().clone().requires_grad_() for k, p in stacked.items()}
    optimiser = recipe.optimise(params.values())

    def one(tensors: Tensors, inputs: Tensor, targets: Tensor) -> Tensor:
        return loss(functional_call(template, tensors, (inputs,)), targets)

    forward, networks = chain(template), torch.arange(len(next(iter(params.values()))))[:, None]
    for index in batches:
        inputs = x.index_select(0, index.flatten()).unflatten(0, index.shape)
        targets = y[networks, index] if own else y[index]
        optimiser.zero_grad()
        if forward is not None:
            losses = vmap(loss)(forward(params, inputs), targets)
        else:
            losses = over_networks(template, one, params, inputs, targets)
        losses.sum().backward()
        optimiser.step()
        step()
    return {k: p.detach() for k, p in params.items()}


def unstacked(stacked: Tensors) -> list[Tensors]:
    """One state dict per network, each with memory of its own."""
    count = len(next(iter(stacked.values())))
    return [{k: t[i].clone() for k, t in stacked.items()} for i in range(count)]


def train_alone(
    model: nn.Module,
    seed: int,
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    loss: Loss = F.cross_entropy,
    step: Callable[[], None] = lambda: None,
) -> Tensors:
    """Train one network the plain way, images with their channels last in memory where that suits it."""
    if suits_channels_last(model, x):
        model, x = model.to(memory_format=torch.channels_last), channels_last(model, x)  # type: ignore[call-overload]
    optimiser = recipe.optimise(model.parameters())
    model.train()
    for index in orders([seed], len(x), recipe):
        optimiser.zero_grad()
        loss(model(x[index[0]]), y[index[0]]).backward()
        optimiser.step()
        step()
    return {k: t.detach().clone(memory_format=torch.contiguous_format) for k, t in model.state_dict().items()}


def orders(seeds: Sequence[int], count: int, recipe: Recipe) -> Iterator[Tensor]:
    """Indices of every step's batch, ``[networks, batch]``; each network shuffles by its own seed."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    batch = min(recipe.batch, count)
    for _ in range(recipe.epochs):
        shuffled = torch.stack([torch.randperm(count, generator=g) for g in generators])
        for start in range(0, count - batch + 1, batch):
            yield shuffled[:, start : start + batch]
