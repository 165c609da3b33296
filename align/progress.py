"""Progress on anything that takes more than a moment: a bar with ETA on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
    TextColumn("left"),
    TimeRemainingColumn(),
    TextColumn("{task.fields[note]}"),
)


@contextmanager
def progress(title: str, total: int | None) -> Iterator[Callable[..., None]]:
    """A bar that vanishes when done; call the yielded function once per step, with ``note=`` for the latest number."""
    console = Console(stderr=True)
    with Progress(*_COLUMNS, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total, note="")

        def step(note: str = "", advance: int = 1) -> None:
            bar.update(task, advance=advance, note=note)

        yield step
