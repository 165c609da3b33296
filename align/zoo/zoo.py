"""An opened zoo: thousands of networks that are read one by one, when they are asked for."""

from __future__ import annotations

import math
import os
import re
import shlex
from functools import cached_property
from pathlib import Path

from safetensors import SafetensorError
from torch import nn

from wsgraph import Spec, WeightGraph, to_graph, trace
from wsgraph.modules import with_tensors

from ..running.networks import Tensors
from .index import read_index
from .shard import OpenShard, checksum, file_name
from .task import Task

PLAIN = re.compile(r"[\w./=-]+")
"""What needs no quotes on a command line."""


class DamagedShardError(ValueError):
    """A shard's file is missing, or is not what the index says."""


class Zoo:
    """The networks in a folder that ``python -m align.zoo`` built.

    A network is known by its number. Files are memory-mapped, and checked against the index's checksum when first
    touched; a damaged one spoils only its own networks.

    Args:
        folder: The zoo's folder.
        count: Take only this many networks, the first ones (and all views of their items); all of them by default.
        make: The class of the networks, if it is one of your own: no code is imported because a file names it.

    Attributes:
        config: What defines the zoo.
        records: One per network: seed, part, losses; in the order of their numbers.
    """

    def __init__(
        self, folder: str | os.PathLike[str], count: int | None = None, make: type[nn.Module] | None = None
    ) -> None:
        self.count = count
        self.folder = Path(folder).absolute()  # files are opened later, perhaps from another working directory
        index = read_index(self.folder, make)
        self.config = index.config
        self._checksums = {number: shard.sha256 for number, shard in index.shards.items()}
        records = [record for shard in index.shards.values() for record in shard.records]
        last = math.inf if count is None else self.config.item_of(count - 1)
        chosen = [r for r in records if self.config.item_of(r.number) <= last]
        self.records = {r.number: r for r in sorted(chosen, key=lambda r: r.number)}
        self._open: dict[int, OpenShard] = {}

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part}={len(self.members(part))}" for part in ("train", "val", "test"))
        return f"Zoo({self.folder.name}, {len(self)} networks: {sizes})"

    def __reduce__(self) -> tuple[type[Zoo], tuple[Path, int | None, type[nn.Module] | None]]:
        return Zoo, (self.folder, self.count, self.config.own)  # open files do not travel to worker processes

    def members(self, part: str) -> list[int]:
        """Numbers of the networks of a part: ``train``, ``val`` or ``test``."""
        return [n for n, r in self.records.items() if r.part == part]

    def tensors(self, number: int) -> Tensors:
        """A network's state dict."""
        if number not in self.records:
            raise IndexError(f"no network {number} in {self.folder}: it has {len(self)}; raise count to build more")
        shard, place = divmod(number, self.config.together)
        return self._shard(shard).tensors(place)

    def module(self, number: int) -> nn.Module:
        """A network as a module in eval mode."""
        return with_tensors(self.template, self.tensors(number)).eval()

    def graph(self, number: int) -> WeightGraph:
        """A network as a graph."""
        return self._frame.replace(self.tensors(number))

    @cached_property
    def _frame(self) -> WeightGraph:
        """The template as a graph: it knows what its copies run in."""
        return to_graph(self.template, self.config.example_input(), spec=self.spec, verify=False)

    @cached_property
    def template(self) -> nn.Module:
        """A module of the architecture, untrained."""
        return self.config.network(0).eval()

    @cached_property
    def task(self) -> Task:
        """What the networks were trained for, with its data."""
        return self.config.make_task()

    @cached_property
    def spec(self) -> Spec:
        """The networks' symmetry."""
        return trace(self.template, self.config.example_input())

    def _shard(self, shard: int) -> OpenShard:
        if shard not in self._open:
            path = self.folder / file_name(shard)
            self._check(shard)
            try:
                self._open[shard] = OpenShard(path, self.config.together)
            except (SafetensorError, ValueError) as error:
                raise self._damaged(path, str(error)) from error
        return self._open[shard]

    def _check(self, shard: int) -> None:
        path = self.folder / file_name(shard)
        if not path.is_file():
            raise self._damaged(path, "the file is missing")
        if checksum(path) != self._checksums[shard]:
            raise self._damaged(path, "its checksum is not the index's: it is truncated, changed or of another zoo")

    def _damaged(self, path: Path, reason: str) -> DamagedShardError:
        override = f"folder={self.folder}"
        if not PLAIN.fullmatch(override):  # quotes for Hydra, and around them those for the shell
            override = shlex.quote(f"folder='{self.folder}'")
        command = f"python -m align.zoo {override}"
        return DamagedShardError(f"{path} cannot be used: {reason}. Rebuild it with: {command}")

    def sound_shards(self) -> list[int]:
        """The shards whose files are as written; all of them are read."""

        def sound(shard: int) -> bool:
            try:
                self._check(shard)
            except DamagedShardError:
                return False
            return True

        return [shard for shard in self._checksums if sound(shard)]
