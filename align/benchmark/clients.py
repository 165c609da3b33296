"""The clients of a federation, trained all at once in this process; they speak Flower's messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn

from ..data import DataSet, load
from ..data.splits import dirichlet_clients, iid_clients
from ..federated.flower import ArrayRecord, Message, MetricRecord, RecordDict
from ..federated.replies import tensors_in
from ..running.networks import Tensors
from ..zoo.architectures import mlp, seeded
from ..zoo.together import Recipe, train_stacked, unstacked


@dataclass(frozen=True)
class Protocol:
    """What clients do, for the server to make something of it.

    Attributes:
        data: Name of the data set that is divided among them.
        strangers: Whether they first train networks of their own, each from its own seed, which they send in round 1.
        alpha: Of the Dirichlet split; ``None`` deals images out at random.
        clients: How many there are.
        sampled: How many of them train in a round.
        steps: Local steps of a round.
        alone: Steps with which strangers begin.
        hidden: Widths of the networks' hidden layers.
        recipe: Batch, optimiser and learning rate; epochs do not count.
    """

    data: str = "digits"
    strangers: bool = False
    alpha: float | None = 0.3
    clients: int = 20
    sampled: int = 5
    steps: int = 50
    alone: int = 200
    hidden: tuple[int, ...] = (64, 64)
    recipe: Recipe = field(default_factory=lambda: Recipe(batch=32, lr=1e-3))


class Clients:
    """All clients of a federation; ``answer`` is what a :class:`~align.federated.local.LocalGrid` calls.

    Args:
        protocol: What they do.
        seed: Of the split, of initial weights and of batches.
    """

    def __init__(self, protocol: Protocol, seed: int) -> None:
        self.protocol, self.seed = protocol, seed
        self.data: DataSet = load(protocol.data)
        labels, count = self.data.train[1], protocol.clients
        self.parts = (
            iid_clients(len(labels), count, seed=seed)
            if protocol.alpha is None
            else dirichlet_clients(labels, count, protocol.alpha, seed=seed, minimum=protocol.recipe.batch)
        )

    def network(self, number: int = -1) -> nn.Module:
        """A new network; that of the server by default, those of clients by their numbers."""
        inputs, hidden = self.data.shape, self.protocol.hidden
        return seeded(lambda: mlp(inputs, hidden, len(self.data.classes)), 1_000 * (self.seed + 1) + number)

    @cached_property
    def own(self) -> list[Tensors]:
        """The networks with which strangers begin."""
        networks = [dict(self.network(k).state_dict()) for k in range(self.protocol.clients)]
        return self._trained(range(self.protocol.clients), networks, 0, self.protocol.alone)

    def answer(self, messages: Sequence[Message]) -> list[Message]:
        """Replies of the clients that are asked to train."""
        numbers = [message.metadata.dst_node_id - 1 for message in messages]
        turn = int(messages[0].content.config_records["config"]["server-round"])  # type: ignore[arg-type]
        if self.protocol.strangers and turn == 1:
            networks = [self.own[k] for k in numbers]
        else:
            sent = [tensors_in(message.content.array_records["arrays"]) for message in messages]
            networks = self._trained(numbers, sent, turn, self.protocol.steps)
        return [
            Message(_content(tensors, len(self.parts[k])), reply_to=message)
            for k, tensors, message in zip(numbers, networks, messages, strict=True)
        ]

    def _trained(self, numbers: Sequence[int], networks: Sequence[Tensors], turn: int, steps: int) -> list[Tensors]:
        stacked = {name: torch.stack([tensors[name] for tensors in networks]) for name in networks[0]}
        batches = self._batches(numbers, turn, steps)
        return unstacked(train_stacked(self.network(), stacked, batches, *self.data.train, self.protocol.recipe))

    def _batches(self, numbers: Sequence[int], turn: int, steps: int) -> Iterator[Tensor]:
        """For every step the images of each client, ``[clients, batch]``, drawn from its own."""
        size = self.protocol.recipe.batch
        drawn = []
        for k in numbers:
            generator = torch.Generator().manual_seed((self.seed * 10_000 + turn) * 1_000 + k)
            part = self.parts[k]
            drawn.append(part[torch.randint(len(part), (steps, size), generator=generator)])
        return iter(torch.stack(drawn, dim=1))

    @torch.no_grad()
    def accuracy(self, tensors: Tensors) -> float:
        """Of a network, on the test images."""
        x, y = self.data.test
        answers = torch.func.functional_call(self.network(), tensors, (x,))
        return float((answers.argmax(1) == y).double().mean())


def _content(tensors: Tensors, examples: int) -> RecordDict:
    return RecordDict({"arrays": ArrayRecord(tensors), "metrics": MetricRecord({"num-examples": examples})})
