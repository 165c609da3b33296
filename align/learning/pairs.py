"""Pairs of networks to learn alignment from, the paper's D_labeled and D_unlabeled.

Both are PyG data sets of :class:`Pair`. The k-th pair depends on the seed and k alone: a stream can be entered
anywhere, cut among processes, and read again, and is always the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.utils.data import ConcatDataset, DataLoader, Sampler
from torch_geometric.data import Dataset

from wsgraph import Permutation, WeightGraph
from wsgraph.mirror import mirror

from ..zoo.zoo import Zoo

Augment = Callable[..., WeightGraph]


@dataclass(frozen=True)
class Pair:
    """Two networks of one architecture.

    Attributes:
        a: The reference.
        b: The one to permute.
        label: How b must be permuted to match a; ``None`` if nobody knows.
        zoo: Where they come from.
        item: What both are views of, for tasks that have items.
    """

    a: WeightGraph
    b: WeightGraph
    label: Permutation | None
    zoo: Zoo
    item: int


def generator(stream: str, seed: int, k: int) -> torch.Generator:
    """Random numbers for the k-th draw of a stream. Hashed, because torch looks at 32 bits of a seed only."""
    return torch.Generator().manual_seed(zlib.crc32(f"{stream} {seed} {k}".encode()))


class _Pairs(Dataset):
    def __init__(self, zoo: Zoo, part: str = "train", count: int | None = None, seed: int = 0) -> None:
        super().__init__()
        self.zoo, self.seed = zoo, seed
        self.members = zoo.members(part)
        if len(self.members) < 2:
            raise ValueError(
                f"{zoo} has {len(self.members)} {part} networks, a pair needs two; build more (zoo.count=)"
            )
        self.count = len(self.members) if count is None else count

    def len(self) -> int:
        return self.count


class LabelledPairs(_Pairs):
    """(v, t·f_aug(v)) with the label tᵀ: a network against a permuted and augmented copy of itself.

    Args:
        zoo: The networks.
        part: ``train``, ``val`` or ``test``.
        augment: f_aug, such as :class:`wsgraph.augment.Noise`; nothing by default. Of several, each serves an equal
            part of the stream, one after the other.
        count: Length of the stream; the number of networks by default.
        seed: Chooses networks, permutations and augmentation.
    """

    def __init__(
        self,
        zoo: Zoo,
        part: str = "train",
        augment: Augment | Sequence[Augment] = (),
        count: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(zoo, part, count, seed)
        self.stages = augment if isinstance(augment, Sequence) else (augment,)

    def get(self, idx: int) -> Pair:
        draw = generator("labelled", self.seed, idx)
        number = self.members[int(torch.randint(len(self.members), (), generator=draw))]
        a = self.zoo.graph(number)
        t = Permutation.random(a.spec, draw)
        copy = self.stages[idx * len(self.stages) // self.count](a, draw) if self.stages else a
        return Pair(a, t.apply(copy), t.inverse(), self.zoo, self.zoo.config.item_of(number))


class UnlabelledPairs(_Pairs):
    """Two different networks of a zoo; where networks are views of items, two views of one item.

    Args:
        zoo: The networks.
        part: ``train``, ``val`` or ``test``.
        count: Length of the stream; the number of networks by default.
        seed: Chooses networks.
        mirrored: Every other network, at random, is its :func:`wsgraph.mirror.mirror` image.
    """

    def __init__(
        self, zoo: Zoo, part: str = "train", count: int | None = None, seed: int = 0, mirrored: bool = False
    ) -> None:
        super().__init__(zoo, part, count, seed)
        self.mirrored = mirrored
        if mirrored and zoo.task.own:
            raise ValueError(f"{zoo}: a mirrored network has a mirrored signal, not its own; leave optim.mirror out")
        if zoo.task.own and zoo.config.views < 2:
            raise ValueError(f"{zoo} has one view of every item, a pair needs two; build a zoo with views=2")
        self.partners = {n: self._partners(n) for n in self.members} if zoo.task.own else None

    def _partners(self, number: int) -> list[int]:
        views = self.zoo.config.views
        first = self.zoo.config.item_of(number) * views
        return [n for n in range(first, first + views) if n != number]

    def get(self, idx: int) -> Pair:
        draw = generator("unlabelled", self.seed, idx)
        i = int(torch.randint(len(self.members), (), generator=draw))
        number = self.members[i]
        if self.partners is None:
            shift = 1 + int(torch.randint(len(self.members) - 1, (), generator=draw))
            other = self.members[(i + shift) % len(self.members)]
        else:
            choices = self.partners[number]
            other = choices[int(torch.randint(len(choices), (), generator=draw))]
        a, b = (self._seen(n, draw) for n in (number, other))
        return Pair(a, b, None, self.zoo, self.zoo.config.item_of(number))

    def _seen(self, number: int, draw: torch.Generator) -> WeightGraph:
        graph = self.zoo.graph(number)
        return mirror(graph) if self.mirrored and torch.rand((), generator=draw) < 0.5 else graph


class OneZooAtATime(Sampler[list[int]]):
    """Batches of a concatenation of data sets, each batch from one of them, chosen at random.

    Args:
        sizes: Lengths of the data sets.
        needs: How often each is chosen, relative to the others.
        batch: Pairs per batch, of all processes together.
        batches: Where the stream starts and ends.
        seed: Of the choice; two streams with one seed choose alike.
        rank, world: This process takes its share of every batch.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        needs: Sequence[float],
        batch: int,
        batches: range,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        if batch % world:
            raise ValueError(f"{batch} pairs per batch cannot be shared evenly by {world} processes")
        self.sizes, self.needs, self.batch, self.batches, self.seed = sizes, torch.tensor(needs), batch, batches, seed
        self.rank, self.world = rank, world

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        share = self.batch // self.world
        for k in self.batches:
            chosen = int(torch.multinomial(self.needs, 1, generator=generator("zoo", self.seed, k)))
            start = sum(self.sizes[:chosen])
            first = k * self.batch + self.rank * share
            yield [start + (first + j) % self.sizes[chosen] for j in range(share)]


def pair_loader(
    datasets: Sequence[_Pairs],
    batch: int,
    batches: range,
    seed: int = 0,
    rank: int = 0,
    world: int = 1,
    workers: int = 0,
    needs: Sequence[float] | None = None,
) -> DataLoader[list[Pair]]:
    """Batches of pairs (lists of :class:`Pair`), each of one zoo, over several zoos.

    Args:
        datasets: The pairs of each zoo.
        batch: Pairs per batch, of all processes together.
        batches: Numbers of the batches to give, such as ``range(100)``; a later start continues the same stream.
        seed: Of the order of zoos.
        rank, world: This process and the number of processes that share each batch.
        workers: Background processes that prepare batches.
        needs: How often each zoo is chosen, relative to the others; all alike by default.
    """
    needs = [1.0] * len(datasets) if needs is None else needs
    sampler = OneZooAtATime([len(d) for d in datasets], needs, batch, batches, seed, rank, world)
    return DataLoader(ConcatDataset(datasets), batch_sampler=sampler, collate_fn=list, num_workers=workers)
