"""One process at a time writes to a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = ".lock"


@contextmanager
def alone(folder: Path, refusal: str) -> Iterator[None]:
    """Make the folder, and keep others that do so out of it; the system lifts the lock when this process ends.

    Args:
        folder: The folder.
        refusal: Message of the ``OSError`` where another process is there already.
    """
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(refusal) from None
        yield
