"""Networks and aligners of an experiment: zoos are built and aligners trained where they are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wsgraph import plain
from wsgraph.files import digest_of

from ...deep_align import DeepAlign
from ...learning.settings import TrainConfig
from ...learning.stages import first_aligner, train_config, zoos_of
from ...learning.trainer import train_aligner
from ...zoo import Zoo
from .notebook import file_name
from .settings import Family, training

Pair = tuple[Zoo, int, int]
"""A zoo and the numbers of two of its networks."""


@dataclass(frozen=True)
class Subjects:
    """What a family's experiment is about.

    Attributes:
        zoos: One per architecture of the family.
        aligners: Trained on them, one per seed.
    """

    zoos: list[Zoo]
    aligners: list[DeepAlign]


def subjects(folder: Path, title: str, family: Family, seeds: int, more: Sequence[str] = ()) -> Subjects:
    """The networks of a family and its aligners; interrupted trainings go on.

    Args:
        folder: Of the experiment; aligners are kept below it.
        title: Of the family.
        family: Its networks.
        seeds: How many aligners.
        more: Further words of the training.
    """
    zoos, aligners = networks(family, more), []
    for seed in range(seeds):
        config = training(family, seed, more)
        where = folder / "aligners" / file_name(" ".join((title, *more, f"seed {seed}")))
        aligners.append(trained(zoos, first_aligner(config), train_config(config), where))
    return Subjects(zoos, aligners)


def networks(family: Family, more: Sequence[str] = ()) -> list[Zoo]:
    """The zoos of a family; one in which a test network is a training network, too, is refused."""
    zoos = zoos_of(training(family, 0, more))
    for zoo in zoos:
        require_held_out(zoo)
    return zoos


def trained(zoos: Sequence[Zoo], aligner: DeepAlign, config: TrainConfig, folder: Path) -> DeepAlign:
    """An aligner that has been trained to the end."""
    return train_aligner(aligner, zoos, config, folder, resume=True)


def require_held_out(zoo: Zoo) -> None:
    """Raise unless no network of the test part is, by its content, one of another part."""
    seen = {digest_of(zoo.tensors(n), {}): n for part in ("train", "val") for n in zoo.members(part)}
    for number in zoo.members("test"):
        twin = seen.get(digest_of(zoo.tensors(number), {}))
        if twin is not None:
            raise ValueError(
                f"network {number} of {zoo.folder} is for tests and equals network {twin}, which aligners learn from: "
                "what is measured on it means nothing. Delete that folder; the same command builds the zoo anew."
            )


def pairs_of(zoos: Sequence[Zoo], count: int) -> list[Pair]:
    """Disjoint pairs of test networks, in turn of all zoos; views of one item, where there are items."""
    each = [list(zip(members[::2], members[1::2], strict=False)) for members in (z.members("test") for z in zoos)]
    turns = [(zoo, *pairs[k]) for k in range(max(map(len, each))) for zoo, pairs in zip(zoos, each, strict=True)
             if k < len(pairs)]  # fmt: skip
    if not turns:
        raise ValueError(f"{zoos[0]} has no two test networks; raise its zoo.count in configs/benchmark")
    return turns[:count]


def fewer(zoo: Zoo, count: int) -> Zoo:
    """The same zoo with only ``count`` networks to learn from; those for validation and tests stay."""
    there = len(zoo.members("train"))
    if not 2 <= count <= there:
        raise ValueError(f"{count} networks to learn from, expected 2 to {there}, which {zoo} has")
    return Fewer(zoo, count)


class Fewer(Zoo):
    """See :func:`fewer`."""

    def __init__(self, zoo: Zoo, learned: int) -> None:
        super().__init__(zoo.folder, zoo.count, zoo.config.own)
        self.learned = plain.value(int, learned, "learned")

    def __reduce__(self) -> tuple[type[Fewer], tuple[Zoo, int]]:  # type: ignore[override]
        return Fewer, (Zoo(self.folder, self.count, self.config.own), self.learned)

    def members(self, part: str) -> list[int]:
        found = super().members(part)
        return found[: self.learned] if part == "train" else found
