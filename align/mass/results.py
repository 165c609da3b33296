"""What mass alignment leaves in a folder: a table in Parquet, and permutations in safetensors, part by part.

.. code-block:: text

    plan.json                what is to be done: the same command goes on, another is refused
    part-00000.safetensors   permutations of the pairs 0 to 63, as number/group
    part-00000.parquet       their rows; written last, so that a part with rows is a part that is done
    table.parquet            all rows, when all parts are done
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from wsgraph.files import load_tensors, replacing, save_tensors

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise ImportError("mass alignment writes Parquet: pip install 'wsgraph[many]'") from error

PLAN, TABLE, KIND = "plan.json", "table.parquet", "align.mass"
SCHEMA = pa.schema(
    [
        ("pair", pa.int64()),
        ("a", pa.string()),
        ("b", pa.string()),
        ("method", pa.string()),
        ("distance_before", pa.float64()),
        ("distance", pa.float64()),
        ("moved", pa.int64()),
        ("neurons", pa.int64()),
        ("converged", pa.bool_()),
        ("seconds", pa.float64()),
        ("barrier_before", pa.float64()),
        ("barrier", pa.float64()),
        ("loss_a", pa.float64()),
        ("loss_b", pa.float64()),
        ("error", pa.string()),
    ]
)
"""Columns of the table; a number that there is not is null, and where ``error`` is not null there are none."""


@dataclass(frozen=True)
class Results:
    """The folder of a mass alignment.

    Attributes:
        folder: Its path.
    """

    folder: Path

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        object.__setattr__(self, "folder", Path(folder))

    @property
    def table(self) -> pa.Table:
        """All rows, in the order of the pairs."""
        path = self.folder / TABLE
        if not path.is_file():
            raise FileNotFoundError(f"{self.folder} has no {TABLE} yet: the command that began it goes on and makes it")
        return pq.read_table(path)

    def maps(self, pair: int) -> dict[str, Tensor]:
        """Group → index tensor of a pair: ``Permutation(spec, maps).apply(b)`` is b in the order of a's neurons."""
        tensors, _ = load_tensors(self._file(pair // self.plan()["size"], ".safetensors"), KIND)
        found = {name.partition("/")[2]: t.long() for name, t in tensors.items() if name.partition("/")[0] == str(pair)}
        if not found:
            raise KeyError(f"pair {pair} has no permutation in {self.folder}; the column error of the table says why")
        return found

    def plan(self) -> dict[str, Any]:
        """What is to be done, as :meth:`begin` wrote it."""
        return json.loads((self.folder / PLAN).read_text())

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Take note of what is to be done; raise where the folder is that of something else."""
        path = self.folder / PLAN
        if not path.is_file():
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(plan, indent=1))
        elif (before := self.plan()) != plan:
            keys = [key for key in {**before, **plan} if before.get(key) != plan.get(key)]
            raise ValueError(
                f"{self.folder} holds another job: {keys[0]} is {before.get(keys[0])!r} there and "
                f"{plan.get(keys[0])!r} here; choose another folder"
            )

    def done(self, part: int) -> bool:
        """Whether a part is there, with rows that can be read."""
        try:
            pq.read_metadata(self._file(part, ".parquet"))
        except (OSError, pa.ArrowInvalid):
            return False
        return self._file(part, ".safetensors").is_file()

    def write(self, part: int, rows: Sequence[Mapping[str, Any]], maps: Mapping[str, Tensor]) -> None:
        """Keep a part: complete or not at all."""
        save_tensors(maps, self._file(part, ".safetensors"), {"kind": KIND})
        with replacing(self._file(part, ".parquet")) as temporary:
            pq.write_table(pa.Table.from_pylist(list(rows), SCHEMA), temporary)

    def finish(self, parts: int) -> None:
        """One table of all parts."""
        with replacing(self.folder / TABLE) as temporary, pq.ParquetWriter(temporary, SCHEMA) as writer:
            for part in range(parts):
                writer.write_table(pq.read_table(self._file(part, ".parquet"), schema=SCHEMA))

    def _file(self, part: int, ending: str) -> Path:
        return self.folder / f"part-{part:05d}{ending}"
