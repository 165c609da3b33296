"""What defines a zoo. Two zoos of one config are equal, bit for bit, on one kind of machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from torch import Tensor, nn

from .architectures import builder, seeded
from .task import Task, example_input, make_task
from .together import Recipe
from .varied import initialise

PARTS = ("train", "val", "test")
SEEDS = 1_000_000
"""Networks with seeds of their own per zoo."""
LATER = ("optimiser", "decay", "init")
"""Fields of a recipe that the first zoos did not have: theirs must keep their names."""


@dataclass(frozen=True)
class ZooConfig:
    """An architecture, a task, a recipe; everything but the number of networks, which can be raised later.

    Args:
        name: For people: the beginning of the folder's name.
        make: One of :data:`~align.zoo.architectures.ARCHITECTURES`, or ``package.module:Class`` of one's own.
        args: Its arguments.
        task: ``classify``, ``table``, ``images`` or ``waves``.
        data: The data set, for tasks that have one.
        shape: (C, H, W) to which its images are resized; as published if ``None``.
        side: ``all`` training images, or the ``first`` or ``second`` of two parts with disjoint main classes.
        recipe: How each network is trained.
        together: Networks per shard, trained at once. With 1, a network is trained the plain way: best for
            convolutions, and needed for BatchNorm.
        views: Networks per item of a task that has items.
        split: Of every ``sum(split)`` items in a row, how many are for training, validation and test of aligners.
        seed: Base of the networks' seeds.
    """

    name: str
    make: str
    args: Mapping[str, Any] = field(default_factory=dict)
    task: str = "classify"
    data: str | None = "digits"
    shape: tuple[int, int, int] | None = None
    side: str = "all"
    recipe: Recipe = field(default_factory=Recipe)
    together: int = 16
    views: int = 1
    split: tuple[int, int, int] = (4, 1, 1)
    seed: int = 0

    def __post_init__(self) -> None:
        builder(self.make)  # an error, now and not in a worker, if there is none
        if len(self.split) != 3 or min(self.split) < 0:
            raise ValueError(f"split is {self.split}, expected three numbers: to train, validate and test aligners")
        if min(self.together, self.views, sum(self.split)) < 1:
            raise ValueError(
                f"got together={self.together}, views={self.views}, split={self.split}: expected at least 1"
            )
        if self.together % self.views:
            raise ValueError(f"together={self.together} is not a multiple of views={self.views}: items would be torn")

    def network(self, seed: int) -> nn.Module:
        """An untrained network, initialised from ``seed``; the caller's random state stays."""
        return seeded(lambda: initialise(builder(self.make)(**self.args), self.recipe.init), seed)

    def make_task(self) -> Task:
        """The task, its data loaded (fetched, if missing)."""
        return make_task(self.task, self.data, self.shape, self.side)

    def example_input(self) -> Tensor:
        """Two inputs that a network takes, without loading data."""
        return example_input(self.task, self.data, self.shape)

    def seed_of(self, number: int) -> int:
        """Seed of a network: initialisation and order of the data."""
        return SEEDS * self.seed + number

    def item_of(self, number: int) -> int:
        """The item that a network is a view of."""
        return number // self.views

    def part_of(self, number: int) -> str:
        """Whether a network is for training, validation or test of aligners; views of one item stay together."""
        train, val, _ = self.split
        place = self.item_of(number) % sum(self.split)
        return PARTS[(place >= train) + (place >= train + val)]

    @property
    def folder_name(self) -> str:
        """``name-data-hash``: changes with anything that changes the networks."""
        digest = hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:8]
        return "-".join(filter(None, (self.name, self.data, "" if self.side == "all" else self.side, digest)))

    def to_json(self) -> dict[str, Any]:
        """As plain data; what a recipe has learned to vary since is written only where it is varied."""
        plain = {f.name: f.default for f in fields(Recipe) if f.name in LATER}
        recipe = {k: v for k, v in asdict(self.recipe).items() if k not in plain or v != plain[k]}
        return json.loads(json.dumps({**asdict(self), "args": dict(self.args), "recipe": recipe}))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ZooConfig:
        """Inverse of :meth:`to_json`."""
        shape, split = data.get("shape"), data.get("split", (4, 1, 1))
        shape = None if shape is None else tuple(shape)
        return cls(**{**data, "recipe": Recipe(**data["recipe"]), "shape": shape, "split": tuple(split)})
