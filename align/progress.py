"""Progress on anything that takes more than a moment: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

INTERVAL = 30.0
"""Seconds between two lines where there is no terminal (logs, CI)."""
_quiet = False


def be_quiet() -> None:
    """Show no progress in this process: another one shows it."""
    global _quiet
    _quiet = True


class _Note(ProgressColumn):
    """The latest number, cropped where there is no room. To rich it may be wrapped, so it is the one to give way."""

    def render(self, task: Task) -> Text:
        return Text(task.fields["note"], no_wrap=True, overflow="ellipsis")


def _columns(width: int, timed: bool) -> list[ProgressColumn]:
    """Columns for a terminal: the bar is short on a narrow one, and count and times are not cut."""
    left = [TextColumn("left"), TimeRemainingColumn(table_column=Column(no_wrap=True))] if timed else []
    return [
        TextColumn("{task.description}", table_column=Column(no_wrap=True, max_width=width * 3 // 8)),
        BarColumn(bar_width=width // 10, table_column=Column(no_wrap=True)),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        *left,
        _Note(),
    ]


@contextmanager
def progress(title: str, total: int | None) -> Iterator[Callable[..., None]]:
    """A bar that vanishes when done; call the yielded function once per step, with ``note=`` for the latest number.

    Without a terminal, every :data:`INTERVAL` seconds a step prints the same as a plain line to stderr.
    """
    console = Console(stderr=True)
    columns, plain = _columns(console.width, timed=total is not None), not console.is_terminal
    printed = time.monotonic()
    with Progress(*columns, console=console, transient=True, disable=plain or _quiet) as bar:
        task = bar.add_task(title, total=total, note="")

        def step(note: str = "", advance: int = 1) -> None:
            nonlocal printed
            bar.update(task, advance=advance, note=note)
            if plain and not _quiet and time.monotonic() - printed >= INTERVAL:
                printed = time.monotonic()
                cells = [c.render(bar.tasks[0]) for c in columns if not isinstance(c, BarColumn)]
                line = " ".join(cell.plain.strip() for cell in cells if isinstance(cell, Text))
                console.print(line, soft_wrap=True, markup=False, highlight=False)

        yield step
