"""What defines a zoo. Two zoos of one config are equal, bit for bit, on one kind of machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from torch import Tensor, nn

from wsgraph import plain

from .architectures import ARCHITECTURES, seeded
from .task import Task, check_task, example_input, make_task
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
        make: One of :data:`~align.zoo.architectures.ARCHITECTURES`, or a class of one's own, which is then known as
            ``package.module:Class``.
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
        own: The class that ``make`` names, if it is one of the user's. Files hold its name only, and what a file names
            is never imported: whoever opens such a file brings the class.
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
    own: type[nn.Module] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.make, type):
            object.__setattr__(self, "own", self.make)
            object.__setattr__(self, "make", f"{self.make.__module__}:{self.make.__qualname__}")
        self._check_make()
        check_task(self.task, self.data, self.side)
        if self.shape is not None and min(self.shape) < 1:
            raise ValueError(f"shape is {self.shape}, expected three numbers of at least 1")
        if len(self.split) != 3 or min(self.split) < 0:
            raise ValueError(f"split is {self.split}, expected three numbers: to train, validate and test aligners")
        if min(self.together, self.views, sum(self.split)) < 1:
            raise ValueError(
                f"got together={self.together}, views={self.views}, split={self.split}: expected at least 1"
            )
        if self.together % self.views:
            raise ValueError(f"together={self.together} is not a multiple of views={self.views}: items would be torn")

    def _check_make(self) -> None:
        ours, name = self.make in ARCHITECTURES, self.make.rpartition(":")[2].rpartition(".")[2]
        if ours and self.own is not None:
            raise ValueError(f"networks of this zoo are made by {self.make!r}: leave make={self.own.__qualname__} out")
        if not ours and self.own is None:
            raise ValueError(
                f"no architecture {self.make!r} in this package; expected one of {', '.join(ARCHITECTURES)}. If it is "
                f"a class of yours, bring it: make={name} in Python, arch.make=package.module:{name} "
                "on the command line. Code that a file names is never imported."
            )
        if self.own is not None and self.own.__qualname__.rpartition(".")[2] != name:
            raise ValueError(f"networks of this zoo are of class {self.make}, got make={self.own.__qualname__}")

    def network(self, seed: int) -> nn.Module:
        """An untrained network, initialised from ``seed``; the caller's random state stays."""
        make = self.own or ARCHITECTURES[self.make]
        try:
            return seeded(lambda: initialise(make(**self.args), self.recipe.init), seed)
        except Exception as error:  # arguments may be anything
            raise ValueError(f"{self.make} cannot be made with {dict(self.args)}: {error}") from error

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
        later = _later()
        recipe = {k: v for k, v in asdict(self.recipe).items() if k not in later or v != later[k]}
        data = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "own"}
        return json.loads(json.dumps({**data, "args": dict(self.args), "recipe": recipe}))

    @classmethod
    def from_json(cls, data: Any, make: type[nn.Module] | None = None, what: str = "") -> ZooConfig:
        """Inverse of :meth:`to_json`.

        Args:
            data: What :meth:`to_json` gave, all of it.
            make: The class, if the networks are of one of the user's.
            what: Name of the data in messages.
        """
        if isinstance(data, Mapping):
            recipe = data.get("recipe")
            data = {**data, "own": make, "recipe": {**_later(), **recipe} if isinstance(recipe, Mapping) else recipe}
        return plain.build(cls, data, what, whole=True)


def _later() -> dict[str, Any]:
    return {f.name: f.default for f in fields(Recipe) if f.name in LATER}
