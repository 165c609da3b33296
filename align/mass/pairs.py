"""Which networks are to be aligned: a table of pairs, or all pairs of the files in some folders."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from wsgraph.checkpoints import PICKLED, SAFE

Pair = tuple[str, str]
"""Paths of the reference and of the network to permute."""
TABLE = ".csv"


def pairs_of(sources: Sequence[str | os.PathLike[str]]) -> list[Pair]:
    """The pairs that are meant.

    Args:
        sources: One ``.csv`` file with the columns ``a`` and ``b``, paths that are relative to its folder; or folders
            and files, of whose networks all pairs are meant, the earlier one as the reference.
    """
    paths = [Path(source) for source in sources]
    tables = [path for path in paths if path.suffix == TABLE]
    if tables and len(paths) > 1:
        raise ValueError(f"{tables[0]} names pairs by itself: pass it alone, or folders and files without it")
    pairs = _read(tables[0]) if tables else list(combinations(_networks(paths), 2))
    if not pairs:
        raise ValueError(f"there is no pair of networks in {', '.join(map(str, paths))}")
    missing = sorted({path for pair in pairs for path in pair if not Path(path).exists()})
    if missing:
        raise FileNotFoundError(f"{len(missing)} of the networks are not there, the first is {missing[0]}")
    return pairs


def _read(path: Path) -> list[Pair]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        if not {"a", "b"} <= set(rows.fieldnames or ()):
            raise ValueError(f"{path} has the columns {list(rows.fieldnames or ())}, expected a and b among them")
        try:
            return [(str(path.parent / row["a"]), str(path.parent / row["b"])) for row in rows]
        except TypeError:
            raise ValueError(f"{path}: line {rows.line_num} has no b") from None


def _networks(paths: Sequence[Path]) -> list[str]:
    """Files as they are, those of folders by name, and a folder of Hugging Face as one network."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir() and not (path / "config.json").exists():
            inside = [p for p in sorted(path.iterdir()) if p.suffix in (SAFE, *PICKLED) or (p / "config.json").exists()]
            found += inside
        else:
            found.append(path)
    return [str(path) for path in dict.fromkeys(found)]
