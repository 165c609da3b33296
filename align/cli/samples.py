"""The data of a command line: a data set by name, or one's own."""

from __future__ import annotations

from torch import Tensor

from ..data import DataSet, load
from ..data.catalogue import CATALOGUE
from ..data.own import own_data
from ..running.batches import NOISE, Samples
from ..running.dreams import DREAMS
from ..running.pictures import PICTURES
from .options import Shape

MOST = 5_000
"""Samples that aligners and repairs look at."""


def to_learn_from(text: str | None, shape: Shape | None) -> Samples:
    """What ``--data`` names, for aligners and repairs: training samples, what is drawn, or nothing."""
    if text in (None, NOISE, DREAMS, PICTURES):
        return text
    found = samples(text, "train", shape)
    return tuple(part[:MOST] for part in found) if isinstance(found, tuple) else found[:MOST]


def to_be_judged_on(text: str, shape: Shape | None) -> tuple[Tensor, Tensor]:
    """What ``--data`` names, with targets: held-out samples of a data set, all of a file."""
    found = samples(text, "test", shape)
    if not isinstance(found, tuple):
        raise ValueError(f"{text} has inputs only, and a loss needs targets, too; add an entry targets to it")
    return found


def samples(text: str, part: str, shape: Shape | None) -> tuple[Tensor, Tensor] | Tensor:
    """Inputs and, where there are any, targets.

    Args:
        text: Name of a data set, or data of one's own, see :func:`~align.data.own.own_data`.
        part: Of a data set, ``train`` or ``test``.
        shape: Of an example input, to which images are resized.
    """
    size = None if shape is None or len(shape.sizes) != 4 else shape.sizes[1:]
    if text in CATALOGUE:
        found: tuple[Tensor, Tensor] = getattr(load(text, shape=size), part)
        return found
    own = own_data(text, size)
    return getattr(own, part) if isinstance(own, DataSet) else own
