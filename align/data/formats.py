"""The file formats a data set comes in: which files, how to find them, whether they are whole, how to read them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ..progress import progress

if TYPE_CHECKING:  # the list of data sets needs no torch, only reading one does
    from torch import Tensor

RawSet: TypeAlias = "dict[str, Tensor]"
"""The raw set: the four tensors of :data:`PARTS`, all uint8; images [N, C, H, W], labels [N]."""

PARTS = ("train_images", "train_labels", "test_images", "test_labels")

Step = Callable[..., None]
"""Called after each file, to move a progress bar."""


@dataclass(frozen=True)
class Format:
    """One way a data set is published.

    Args:
        title: What people call the format.
        files: The names of its files, all needed.
        read: Turns {name: path} into the raw set; calls its second argument once per file.
        compressed: Whether each file may also be there as ``name.gz``.
        checksums: ``"algorithm:hex"`` by file name, for the files whose bytes are known.
    """

    title: str
    files: tuple[str, ...]
    read: Callable[[Mapping[str, Path], Step], RawSet]
    compressed: bool = False
    checksums: Mapping[str, str] = field(default_factory=dict)

    def find(self, folder: Path) -> dict[str, Path]:
        """The files of this format that are somewhere below ``folder``, by name."""
        there = {path.name: path for path in sorted(folder.rglob("*"), reverse=True) if path.is_file()}
        found: dict[str, Path] = {}
        for name in self.files:
            for spelling in (name, f"{name}.gz") if self.compressed else (name,):
                if spelling in there:
                    found.setdefault(name, there[spelling])
        return found

    def load(self, paths: Mapping[str, Path]) -> RawSet:
        """Check and read the files; a damaged one is a ``ValueError`` that names it."""
        with progress(f"checking {self.title}", len(self.checksums)) as step:
            for name, checksum in self.checksums.items():
                check_file(paths[name], checksum)
                step()
        with progress(f"reading {self.title}", len(self.files)) as step:
            return self.read(paths, step)


def check_file(path: Path, checksum: str) -> None:
    """Raise ``ValueError`` unless the file's bytes have the checksum ``"algorithm:hex"``."""
    algorithm, _, expected = checksum.partition(":")
    with path.open("rb") as file:
        got = hashlib.file_digest(file, algorithm).hexdigest()
    if got != expected:
        raise ValueError(f"{path} is damaged or incomplete: its {algorithm} is {got}, expected {expected}. Delete it.")


def digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over the bytes of the four tensors, in the order of :data:`PARTS`; the same for every format."""
    sha = hashlib.sha256()
    for part in PARTS:
        sha.update(tensors[part].contiguous().numpy().data)
    return sha.hexdigest()
