"""What a federation does, and the network and data that go with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from align.data import DataSet, fetch, load
from align.data.splits import dirichlet_clients, iid_clients
from align.zoo.architectures import cnn, mlp, seeded


@dataclass(frozen=True)
class Settings:
    """Every setting is one of the run's config, and of the message to a client.

    Attributes:
        data: ``digits``, ``fashion_mnist`` or ``cifar10``.
        method: As in :func:`align.match`; ``none`` is FedAvg as it is.
        rounds: How many.
        sampled: Clients that train in a round.
        steps: Local steps of a client in a round.
        alone: Steps that clients train networks of their own before round 1; 0: all start from the server's.
        alpha: Of the Dirichlet split of the classes; 0 deals images out at random (IID).
        batch: Images per step.
        lr: Learning rate of a client's Adam.
        seed: Of everything drawn.
    """

    data: str = "digits"
    method: str = "weight_matching"
    rounds: int = 20
    sampled: int = 5
    steps: int = 50
    alone: int = 200
    alpha: float = 0.3
    batch: int = 32
    lr: float = 1e-3
    seed: int = 0

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> Settings:
        """Those among a config's entries."""
        return cls(**{field.name: config[field.name] for field in fields(cls) if field.name in config})

    def network(self, number: int = -1) -> nn.Module:
        """A new network: the server's, or that of a client."""
        data = dataset(self.data)
        make = cnn if self.data == "cifar10" else lambda shape: mlp(shape, (64, 64))
        return seeded(lambda: make(data.shape), 1_000 * (self.seed + 1) + number)

    def images(self, clients: int, number: int) -> tuple[Tensor, Tensor]:
        """What a client learns from."""
        x, y = dataset(self.data).train
        if self.alpha:
            parts = dirichlet_clients(y, clients, self.alpha, seed=self.seed, minimum=8)
        else:
            parts = iid_clients(len(y), clients, seed=self.seed)
        return x[parts[number]], y[parts[number]]

    @torch.no_grad()
    def accuracy(self, state: Mapping[str, Tensor]) -> float:
        """Of a network, on the test images."""
        x, y = dataset(self.data).test
        answers = torch.func.functional_call(self.network(), dict(state), (x,))
        return float((answers.argmax(1) == y).double().mean())


@lru_cache(maxsize=1)
def dataset(name: str) -> DataSet:
    """A data set, fetched where it is missing; a worker that serves many clients reads it once."""
    try:
        return load(name)
    except FileNotFoundError:
        fetch(name)
        return load(name)
