"""A Spec as a table, for the terminal and for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .spec import Spec

HEADER = ("group", "size", "activation", "pinned because", "parameters")
LISTED = 3
"""Parameters that a row names; of the others it gives the number."""


def rows_of(spec: Spec) -> list[tuple[str, ...]]:
    """One row per group, under :data:`HEADER`."""
    rows: list[tuple[str, ...]] = []
    for group in spec.groups.values():
        used = [p.name for p in spec.params.values() if any(group.name in axis.groups for axis in p.axes)]
        shown = ", ".join(used[:LISTED]) + (f" and {len(used) - LISTED} more" if len(used) > LISTED else "")
        nested = f" (in {group.parent})" if group.parent else ""
        rows.append((group.name + nested, str(group.size), group.activation, group.why or "-", shown))
    return rows


def summary_of(spec: Spec) -> str:
    """The line below the table."""
    return f"{len(spec.free)} of {len(spec.groups)} groups may be permuted; {len(spec.params)} parameters"


def as_text(spec: Spec) -> str:
    """Columns of equal width, for a terminal."""
    rows = [HEADER, *rows_of(spec)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join([*lines, summary_of(spec)])


def as_html(spec: Spec) -> str:
    """The same table in HTML; pinned groups are grey."""

    def row(cells: tuple[str, ...], tag: str, style: str = "") -> str:
        return f"<tr{style}>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = [
        row(cells, "td", ' style="color: gray"' if group.pinned else "")
        for group, cells in zip(spec.groups.values(), rows_of(spec), strict=True)
    ]
    return f"<table><caption>{summary_of(spec)}</caption>{row(HEADER, 'th')}{''.join(body)}</table>"
