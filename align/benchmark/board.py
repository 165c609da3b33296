"""Tables of a contest, kept in a folder row by row: a command that was interrupted goes on where it stopped.

``results.json`` has the losses on all lines, ``table.md`` the barriers, and a picture per section the mean lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from wsgraph.files import replacing

from ..deep_align import DeepAlign
from ..judging.barrier import Barrier
from ..plots import plot_line_panels
from ..zoo import Zoo
from .contest import COLUMNS, Row, cells, digest, judge, labels_for

RESULTS, TABLE = "results.json", "table.md"
WIDTH = 240
"""Letters of a printed line: a table has a dozen columns."""


class Board:
    """Rows by section and name.

    Args:
        folder: Where they are kept; what is there already is read.
        title: Of tables and pictures.
    """

    def __init__(self, folder: Path, title: str) -> None:
        self.folder, self.title = folder, title
        self.stored = read_results(folder)

    def judge(self, section: str, name: str, zoo: Zoo, aligner: DeepAlign) -> None:
        """Add a row, or what it lacks: methods judged on the same networks stay. A section is of one aligner."""
        of = {"networks": zoo.folder.name, "count": len(zoo), "aligner": digest(aligner)}
        rows = {row: entry for row, entry in self.stored.get(section, {}).items() if entry["aligner"] == of["aligner"]}
        entry = rows.get(name, {})
        known = entry["loss"] if {key: entry.get(key) for key in of} == of else {}
        wanted = labels_for(zoo)
        missing = [label for label in wanted if label not in known]
        if not missing:
            return
        row = judge(zoo, f"{section}: {name}", aligner, missing)
        points = next(iter(row.values())).points.tolist()
        found = known | {label: line.loss.tolist() for label, line in row.items()}
        losses = {label: found[label] for label in wanted}
        self.stored[section] = {**rows, name: {**of, "points": points, "loss": losses}}
        self._write(section)

    def rows(self, section: str) -> dict[str, Row]:
        """Barriers of a section's rows."""
        return {name: row_of(entry) for name, entry in self.stored[section].items()}

    def show(self) -> None:
        """Print all tables, and write them as this version does."""
        for section in self.stored:
            self._write(section)
            table = Table(title=f"{self.title}: {self._heading(section)}")
            for column in COLUMNS:
                table.add_column(column, justify="left" if column == "networks" else "right")
            for name, row in self.rows(section).items():
                table.add_row(name, *cells(row))
            Console(width=WIDTH).print(table)

    def _heading(self, section: str) -> str:
        return f"{section} (aligner {next(iter(self.stored[section].values()))['aligner']})"

    def _write(self, section: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        tables = "\n".join(f"### {self._heading(name)}\n\n{markdown(self.rows(name))}" for name in self.stored)
        for name, text in ((RESULTS, json.dumps(self.stored, indent=1)), (TABLE, tables)):
            with replacing(self.folder / name) as temporary:
                temporary.write_text(text)
        drawn = {
            name: {label: line for label, line in row.items() if label != "not aligned"}
            for name, row in self.rows(section).items()
        }
        picture = self.folder / (re.sub(r"\W+", "-", section) + ".png")
        plot_line_panels(drawn, picture, f"{self.title}: {section}")


def read_results(folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """What a folder's ``results.json`` holds, by section and row; nothing, if there is none."""
    path = folder / RESULTS
    if not path.is_file():
        return {}
    stored = json.loads(path.read_text())
    entries = [entry for rows in stored.values() for entry in rows.values()]
    if not all(isinstance(entry, dict) and "loss" in entry for entry in entries):
        raise ValueError(f"{path} was written by another version; delete it, or choose another --output")
    return stored


def row_of(entry: Mapping[str, Any]) -> dict[str, Barrier]:
    """The barriers that a stored row holds."""
    points = torch.tensor(entry["points"])
    return {label: Barrier(points, torch.tensor(losses)) for label, losses in entry["loss"].items()}


def markdown(rows: Mapping[str, Row]) -> str:
    """A table of rows."""
    lines = [COLUMNS, ["---", *["---:"] * (len(COLUMNS) - 1)], *([name, *cells(row)] for name, row in rows.items())]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
