"""Whether tables that were made again say what a page says: cell by cell, in standard errors.

Machines train other networks from the same seed, so numbers made again are other numbers. They should differ by what
their errors allow: one in three by more than one error of the difference, one in twenty by more than two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .page import PLACE
from .sheet import Sheet

AGAIN = "again"
"""Folder of the table that says so."""
COLUMNS = ("table", "numbers", "> 1 error apart", "> 2", "> 3", "farthest", "on the page", "made again")

NUMBER = re.compile(r"(?P<value>-?[\d,]*\.?\d+)%?(?: ± (?P<error>[\d.e-]+)%?)?")
TABLE = re.compile(r"(?:^\|.*\n?)+", re.MULTILINE)
Rows = dict[tuple[str, ...], dict[str, str]]
"""Cells by the name of their row, then by that of their column."""


@dataclass(frozen=True)
class Cell:
    """A number that two tables have, with its standard error in at least one of them.

    Attributes:
        place: Its row and column.
        old: As the page has it.
        new: As it was made again.
    """

    place: str
    old: str
    new: str

    @property
    def apart(self) -> float:
        """How many standard errors of their difference the two numbers are apart.

        >>> round(Cell("weight matching, barrier", "0.20 ± 0.03", "0.30 ± 0.04").apart, 3)
        2.0
        """
        (x, dx), (y, dy) = _read(self.old), _read(self.new)
        return abs(x - y) / (dx**2 + dy**2) ** 0.5


def compare(page: Path, results: Path) -> None:
    """Print and keep, of every table, how many numbers are farther apart than their errors are, and the farthest."""
    sheet = Sheet(AGAIN, f"Numbers with standard errors, {page} beside {results}", COLUMNS)
    for file, cells in made_again(page, results).items():
        beyond = (sum(cell.apart > errors for cell in cells) for errors in (1, 2, 3))
        worst = [f"{cells[0].place}: {cells[0].apart:.1f}", cells[0].old, cells[0].new] if cells else ["–"] * 3
        sheet.add(file.removesuffix("/table.md"), str(len(cells)), *map(str, beyond), *worst)
    sheet.close()


def made_again(page: Path, results: Path) -> dict[str, list[Cell]]:
    """Numbers with errors that a page and a folder of results both have: by file, those farthest apart first.

    A table that stands on the page as it is in the folder was not made again.
    """
    found = {}
    for place in PLACE.finditer(page.read_text()):
        path = results / place["file"]
        if path.is_file() and path.parent.name != AGAIN and (text := path.read_text()).strip() not in place[0]:
            cells = shared(rows_of(place[0]), rows_of(text))
            found[place["file"]] = sorted(cells, key=lambda cell: -cell.apart)
    if not found:
        raise ValueError(f"{results} has no table of {page} that was made again: run the command above one first")
    return found


def shared(old: Rows, new: Rows) -> list[Cell]:
    """Numbers of rows and columns of the same name; those that nobody gave an error are left out."""
    cells = [
        Cell(", ".join((*row, column)), text, new[row][column])
        for row, there in old.items()
        for column, text in there.items()
        if column in new.get(row, {})
    ]
    return [cell for cell in cells if "±" in cell.old + cell.new and all(map(NUMBER.fullmatch, (cell.old, cell.new)))]


def rows_of(text: str) -> Rows:
    """The Markdown tables of a text. As many of a row's first cells as tell the rows apart are its name."""
    found: Rows = {}
    for k, block in enumerate(blocks := TABLE.findall(text)):
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in block.splitlines())
        count = next(n for n in range(1, len(head) + 1) if len({tuple(row[:n]) for row in rows}) == len(rows))
        columns = list(_numbered(head))[count:]
        which = (f"table {k + 1}",) if len(blocks) > 1 else ()
        found |= {(*which, *row[:count]): dict(zip(columns, row[count:], strict=True)) for row in rows}
    return found


def _read(text: str) -> tuple[float, float]:
    """Value and standard error of a cell; a number that has none is exact."""
    found = NUMBER.fullmatch(text)
    assert found is not None  # or it would not be a Cell
    return float(found["value"].replace(",", "")), float(found["error"] or 0)


def _numbered(head: Sequence[str]) -> Iterator[str]:
    """Names of columns; where there are several of a name, the second has its number."""
    for k, name in enumerate(head):
        before = list(head[:k]).count(name)
        yield f"{name} ({before + 1})" if before else name
