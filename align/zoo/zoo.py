"""An opened zoo: thousands of networks that are read one by one, when they are asked for."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import nn

from wsgraph import Spec, WeightGraph, to_graph, trace
from wsgraph.files import replacing
from wsgraph.modules import with_tensors

from ..running.networks import Tensors
from .config import ZooConfig
from .shard import OpenShard, Record, checksum, file_name
from .task import Task

INDEX = "zoo.json"
FORMAT = 1
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

    Attributes:
        config: What defines the zoo.
        records: One per network: seed, part, losses; in the order of their numbers.
    """

    def __init__(self, folder: str | os.PathLike[str], count: int | None = None) -> None:
        self.count = count
        self.folder = Path(folder).absolute()  # files are opened later, perhaps from another working directory
        index = read_index(self.folder)
        self.config = ZooConfig.from_json(index["config"])
        self._checksums = {int(k): s["sha256"] for k, s in index["shards"].items()}
        records = [Record(**r) for s in index["shards"].values() for r in s["records"]]
        last = math.inf if count is None else self.config.item_of(count - 1)
        chosen = [r for r in records if self.config.item_of(r.number) <= last]
        self.records = {r.number: r for r in sorted(chosen, key=lambda r: r.number)}
        self._open: dict[int, OpenShard] = {}

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part}={len(self.members(part))}" for part in ("train", "val", "test"))
        return f"Zoo({self.folder.name}, {len(self)} networks: {sizes})"

    def __reduce__(self) -> tuple[type[Zoo], tuple[Path, int | None]]:
        return Zoo, (self.folder, self.count)  # open files do not travel to worker processes

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
        return to_graph(self.tensors(number), spec=self.spec)

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
                self._open[shard] = OpenShard(path)
            except SafetensorError as error:
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


def read_index(folder: Path) -> dict[str, Any]:
    """The index of a zoo's folder."""
    path = folder / INDEX
    if not path.is_file():
        raise FileNotFoundError(f"no {INDEX} in {folder}: not a zoo. Build one with: python -m align.zoo +arch=mlp")
    try:
        index = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON ({error}); delete it and build the zoo again") from error
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise ValueError(f"{path} is not a zoo's index of format {FORMAT}; update the package, or build the zoo again")
    return index


def write_index(folder: Path, config: ZooConfig, shards: Mapping[int, tuple[str, list[Record]]]) -> None:
    """Write the index: the config and, for every finished shard, its checksum and records."""
    entries = {str(k): {"sha256": shards[k][0], "records": [asdict(r) for r in shards[k][1]]} for k in sorted(shards)}
    index = {"format": FORMAT, "config": config.to_json(), "shards": entries}
    with replacing(folder / INDEX) as temporary, temporary.open("w") as file:
        json.dump(index, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())  # before it takes the old one's place: a power cut must not cost both
