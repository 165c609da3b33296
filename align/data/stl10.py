"""STL-10's binary format: bytes without a header, each channel of an image written column by column."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .formats import PARTS, Format, RawSet, Step

FILES = ("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin")
SIDE = 96
PIXELS = 3 * SIDE * SIDE


def read(paths: Mapping[str, Path], step: Step) -> RawSet:
    """The four files as the raw set; labels from 1 to 10 become 0 to 9."""
    import torch

    tensors = {}
    for part, name in zip(PARTS, FILES, strict=True):
        data = np.fromfile(paths[name], dtype=np.uint8)
        array = _images(data, paths[name]) if "images" in part else _labels(data, paths[name])
        tensors[part] = torch.from_numpy(array)
        step()
    return tensors


def _images(data: np.ndarray, path: Path) -> np.ndarray:
    if not data.size or data.size % PIXELS:
        raise ValueError(f"{path} has {data.size} bytes, expected a multiple of {PIXELS}: it is cut short.")
    return np.ascontiguousarray(data.reshape(-1, 3, SIDE, SIDE).swapaxes(2, 3))


def _labels(data: np.ndarray, path: Path) -> np.ndarray:
    if not data.size or data.min() < 1 or data.max() > 10:
        raise ValueError(f"{path} does not hold labels from 1 to 10.")
    return data - 1


BINARY = Format(
    "STL-10 binary version",
    FILES,
    read,
    checksums={  # as published; the official files have no SHA-256
        "train_X.bin": "md5:918c2871b30a85fa023e0c44e0bee87f",
        "train_y.bin": "md5:5a34089d4802c674881badbb80307741",
        "test_X.bin": "md5:7f263ba9f9e0b06b93213547f721ac82",
        "test_y.bin": "md5:36f9794fa4beb8a2c72628de14fa638e",
    },
)
