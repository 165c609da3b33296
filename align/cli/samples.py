"""The data of a command line: a data set by name, or a file of one's own."""

from __future__ import annotations

import os
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from wsgraph.checkpoints import PICKLED, SAFE, read_checkpoint

from ..data import load
from ..data.catalogue import CATALOGUE
from ..running.batches import NOISE, Samples
from ..running.outputs import Loss
from .options import Shape

MOST = 5_000
"""Samples that aligners and repairs look at."""


def to_learn_from(text: str | None, shape: Shape | None) -> Samples:
    """What ``--data`` names, for aligners and repairs: training samples, ``"noise"``, or nothing."""
    if text is None or text == NOISE:
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
        text: Name of a data set, or path of a file.
        part: Of a data set, ``train`` or ``test``.
        shape: Of an example input, to which images are resized.
    """
    if text in CATALOGUE:
        size = None if shape is None or len(shape.sizes) != 4 else shape.sizes[1:]
        found: tuple[Tensor, Tensor] = getattr(load(text, shape=size), part)
        return found
    if not text.endswith((SAFE, *PICKLED)):
        raise ValueError(f"no data {text!r}: choose one of {', '.join(CATALOGUE)}, or pass a {SAFE} file")
    tensors = read_checkpoint(os.fspath(text)).tensors
    if "inputs" not in tensors or tensors.keys() - {"inputs", "targets"}:
        raise ValueError(f"{text} holds {sorted(tensors)}, expected the entries inputs and targets (or inputs alone)")
    return (tensors["inputs"], tensors["targets"]) if "targets" in tensors else tensors["inputs"]


def loss_of(targets: Tensor) -> Loss:
    """Cross-entropy for classes, squared error for numbers."""
    loss: Any = F.mse_loss if targets.is_floating_point() else F.cross_entropy
    return loss
