"""MNIST's file format, IDX: a magic number, the sizes, then bytes; plain or gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .formats import PARTS, Format, RawSet, Step

if TYPE_CHECKING:
    from torch import Tensor

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
UNSIGNED_BYTE = 0x08


def read(paths: Mapping[str, Path], step: Step) -> RawSet:
    """The four files as the raw set; grey images get their one channel."""
    tensors = {}
    for part, name in zip(PARTS, FILES, strict=True):
        dimensions = 3 if "images" in part else 1
        tensor = read_idx(paths[name], dimensions)
        tensors[part] = tensor[:, None] if dimensions == 3 else tensor
        step()
    return tensors


def read_idx(path: Path, dimensions: int) -> Tensor:
    """One file of unsigned bytes with that many dimensions; anything else, or a byte too few, is a ``ValueError``."""
    import torch

    content = _bytes(path)
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes((0, 0, UNSIGNED_BYTE, dimensions)):
        raise ValueError(f"{path} is not an IDX file of unsigned bytes with {dimensions} dimensions.")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) - header != math.prod(shape):
        raise ValueError(
            f"{path} is damaged: it announces {' × '.join(map(str, shape))} bytes and has {len(content) - header}."
        )
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy())


def _bytes(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is not a whole gzip file: {error}") from error


IDX = Format("IDX", FILES, read, compressed=True)
