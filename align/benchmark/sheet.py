"""A table that a command prints, and keeps with the command above it, so that a page can have it (:mod:`.page`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from wsgraph.files import replacing

from .provenance import in_words, provenance
from .tables import both

RESULTS = Path("results")
"""Tables go below this folder."""


class Sheet:
    """Rows, until :meth:`close` prints them and writes ``results/<name>/table.md``.

    Args:
        name: Of the folder.
        title: For people.
        columns: Its head; all but the first are aligned to the right.
    """

    def __init__(self, name: str, title: str, columns: Sequence[str]) -> None:
        self.name, self.title, self.columns, self.made = name, title, columns, provenance()
        self.rows: list[tuple[str, ...]] = []

    def add(self, *cells: str) -> None:
        """One more row."""
        self.rows.append(cells)

    def close(self) -> None:
        """Print the table, and write it with what made it above."""
        table = Table(title=self.title)
        for k, column in enumerate(self.columns):
            table.add_column(column, justify="right" if k else "left")
        for row in self.rows:
            table.add_row(*row)
        console, path = Console(markup=False, width=160), RESULTS / self.name / "table.md"
        console.print(table)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_text(f"{in_words(self.made)}. {self.title}.\n\n{both(self.columns, self.rows)['md']}")
        console.print(f"written: {path}", soft_wrap=True)
