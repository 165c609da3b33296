"""Train many small networks at once: one batched step moves all of them.

Parameters of K networks are stacked on a leading axis and the forward pass is ``vmap``-ed over it, so that K small
matrix products become one. Each network has its own initialisation and its own order of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from ..progress import progress

Split = tuple[Tensor, Tensor]
Make = Callable[[], nn.Module]


@dataclass(frozen=True)
class Recipe:
    """How a network is trained.

    Args:
        epochs: Passes over the data.
        batch: Samples per step.
        lr: Adam's learning rate.
    """

    epochs: int = 5
    batch: int = 128
    lr: float = 5e-3


def seeded(make: Make, seed: int) -> nn.Module:
    """A new network initialised from ``seed``; the caller's random state stays."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def train_together(make: Make, seeds: list[int], data: Split, recipe: Recipe) -> list[dict[str, Tensor]]:
    """Train one network per seed, all at once.

    Args:
        make: Builds an untrained network (without BatchNorm: its statistics are updated in place).
        seeds: One per network, for initialisation and order of the data.
        data: Inputs and labels.
        recipe: Epochs, batch size, learning rate.

    Returns:
        One state dict per network.
    """
    models = [seeded(make, seed) for seed in seeds]
    if any(True for _ in models[0].buffers()):
        raise ValueError("networks with buffers (BatchNorm) cannot be trained together; train them one by one")
    stacked, _ = stack_module_state(models)
    params = {k: p.detach().requires_grad_() for k, p in stacked.items()}
    optimiser = torch.optim.Adam(params.values(), lr=recipe.lr, fused=True)
    template = models[0]
    x, y = data

    def loss_of(p: dict[str, Tensor], index: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(template, p, (x[index],)), y[index])

    steps = recipe.epochs * (len(x) // recipe.batch)
    with progress(f"training {len(seeds)} networks", steps) as step:
        for index in orders(seeds, len(x), recipe):
            optimiser.zero_grad()
            vmap(loss_of, randomness="different")(params, index).sum().backward()
            optimiser.step()
            step()
    return [{k: p.detach()[i].clone() for k, p in params.items()} for i in range(len(seeds))]


def orders(seeds: list[int], count: int, recipe: Recipe) -> Iterator[Tensor]:
    """Indices of every step's batch, ``[networks, batch]``; each network shuffles by its own seed."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    for _ in range(recipe.epochs):
        shuffled = torch.stack([torch.randperm(count, generator=g) for g in generators])
        for start in range(0, count - recipe.batch + 1, recipe.batch):
            yield shuffled[:, start : start + recipe.batch]
