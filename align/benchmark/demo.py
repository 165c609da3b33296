"""The table of ``make demo``, kept for the page of results."""

from __future__ import annotations

from .. import demo
from .sheet import Sheet


def compare(seed: int) -> None:
    """Run the demo's methods, print and keep."""
    sheet = Sheet("demo", demo.TITLE, demo.COLUMNS)
    for row in demo.compare(seed):
        sheet.add(*row.cells)
    sheet.close()
