"""The index of a zoo's folder, ``zoo.json``: its config, and for every finished shard its checksum and records.

The index may come from a stranger or from a failing disk: all of it is checked against itself before any of it is used.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from wsgraph import plain
from wsgraph.files import replacing

from .config import ZooConfig
from .shard import Record

INDEX = "zoo.json"
FORMAT = 1
NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
"""A shard's number as it is written."""
REMEDY = "Copy it again from where it came, or delete it and build the zoo again."

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shard:
    """What the index says of one file: its SHA-256, and its networks in order."""

    sha256: str
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Index:
    """What is in a zoo's folder: the config, and the finished shards by number."""

    config: ZooConfig
    shards: Mapping[int, Shard]


def read_index(folder: Path, make: type[nn.Module] | None = None) -> Index:
    """The index of a zoo's folder.

    Args:
        folder: The zoo's folder.
        make: The class of its networks, if it is one of the user's.
    """
    path = folder / INDEX
    if not path.is_file():
        raise FileNotFoundError(f"no {INDEX} in {folder}: not a zoo. Build one with: python -m align.zoo +arch=mlp")
    try:
        data = plain.parse(path.read_bytes(), str(path))
    except ValueError as error:
        raise ValueError(f"{error}. {REMEDY}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"{path} is not a zoo's index of format {FORMAT}; update the package, or build the zoo again")
    _check_digest(path, data)
    config = ZooConfig.from_json(data.get("config"), make, f"{path}: config")
    shards = data.get("shards")
    if not isinstance(shards, dict) or not all(map(NUMBER.fullmatch, shards)):
        raise ValueError(f"{path}: shards is not a mapping from numbers. {REMEDY}")
    return Index(config, {int(k): _shard(path, config, int(k), shard) for k, shard in shards.items()})


def _check_digest(path: Path, data: Mapping[str, Any]) -> None:
    expected = data.get("digest")
    if expected is None:
        log.info("%s has no digest: whether it is damaged cannot be told", path)
    elif (got := _digest(data)) != expected:
        raise ValueError(f"{path} is damaged: the SHA-256 of its content is {got}, but it says {expected}. {REMEDY}")


def _digest(data: Mapping[str, Any]) -> str:
    content = [data.get("config"), data.get("shards")]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _shard(path: Path, config: ZooConfig, shard: int, data: Any) -> Shard:
    """A shard of the index, whose networks must be those that the config puts into it."""
    what = f"{path}: shards.{shard}"
    if not (isinstance(data, dict) and isinstance(data.get("sha256"), str) and isinstance(data.get("records"), list)):
        raise ValueError(f"{what} has no checksum and records. {REMEDY}")
    records = tuple(plain.build(Record, r, f"{what}.records", whole=True) for r in data["records"])
    first = shard * config.together
    expected = [
        (n, config.item_of(n), config.seed_of(n), config.part_of(n)) for n in range(first, first + len(records))
    ]
    if len(records) != config.together or [(r.number, r.item, r.seed, r.part) for r in records] != expected:
        raise ValueError(
            f"{what} holds other networks than its config says (together={config.together}, views={config.views}, "
            f"split={list(config.split)}, seed={config.seed}): one of them was changed. {REMEDY}"
        )
    return Shard(data["sha256"], records)


def write_index(folder: Path, config: ZooConfig, shards: Mapping[int, Shard]) -> None:
    """Write the index, with a digest that finds damage."""
    index = {"format": FORMAT, "config": config.to_json(), "shards": {str(k): asdict(s) for k, s in shards.items()}}
    with replacing(folder / INDEX) as temporary, temporary.open("w") as file:
        json.dump({**index, "digest": _digest(index)}, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())  # before it takes the old one's place: a power cut must not cost both
