"""One process at a time writes to a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = ".lock"


@contextmanager
def alone(folder: Path, refusal: Exception) -> Iterator[None]:
    """Make the folder, and keep others that do so out of it; the system lifts the lock when this process ends.

    Args:
        folder: The folder.
        refusal: Raised where another process is there already.
    """
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("w")
    except OSError as error:
        raise OSError(f"{folder} cannot be written to ({error}); choose another folder") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refusal from None
        yield
