"""Data of one's own: a file of tensors, a Dataset that a module holds, a folder of images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from wsgraph.checkpoints import PICKLED, SAFE, read_checkpoint
from wsgraph.importing import imported

from ..progress import progress
from .catalogue import CATALOGUE
from .dataset import DataSet, Split
from .images import read_images

EXPECTED = (
    f"a {SAFE} file with the entries inputs and targets, a Dataset as package.module:name, or a folder of images with "
    "a folder per class"
)
BATCH = 256


def own_data(source: str, shape: Sequence[int] | None = None) -> DataSet | Split | Tensor:
    """Samples that are not among the data sets of this package.

    Args:
        source: The path of a file or of a folder of images, or ``package.module:name``: a Dataset of pairs (input,
            target), a pair of tensors, a :class:`~align.data.DataSet`, or a function that makes one of them.
        shape: (C, H, W) that images of a folder are resized to; as they are by default.

    Returns:
        Inputs and targets; inputs alone, where a file holds no more.
    """
    if Path(source).is_dir():
        return read_images(Path(source), shape)
    if source.endswith((SAFE, *PICKLED)):
        return _tensors(source)
    if ":" not in source:
        raise ValueError(f"no data {source!r}: choose one of {', '.join(CATALOGUE)}, or pass {EXPECTED}")
    found = imported(source)
    return _samples(found() if callable(found) and not isinstance(found, Dataset) else found, source)


def _tensors(path: str) -> Split | Tensor:
    tensors = read_checkpoint(path).tensors
    if "inputs" not in tensors or tensors.keys() - {"inputs", "targets"}:
        raise ValueError(f"{path} holds {sorted(tensors)}, expected the entries inputs and targets (or inputs alone)")
    return (tensors["inputs"], tensors["targets"]) if "targets" in tensors else tensors["inputs"]


def _samples(found: Any, source: str) -> DataSet | Split:
    """What a module holds, as tensors."""
    if isinstance(found, DataSet):
        return found
    if isinstance(found, tuple) and len(found) == 2 and all(isinstance(part, Tensor) for part in found):
        return found
    if not hasattr(found, "__getitem__") or not hasattr(found, "__len__"):
        raise ValueError(
            f"{source} is a {type(found).__name__}, expected a Dataset of pairs (input, target), a pair of tensors, or "
            "a function without arguments that makes one of them"
        )
    batches = DataLoader(found, batch_size=BATCH)
    parts: list[Any] = []
    try:
        with progress(f"reading {source}", len(batches)) as step:
            for batch in batches:
                parts.append(batch)
                step()
        inputs, targets = (torch.cat(part) for part in zip(*parts, strict=True))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{source}: its items cannot be stacked ({error}), expected pairs of an input tensor, of one size, and a "
            "target, a class or a tensor"
        ) from error
    return inputs, targets
