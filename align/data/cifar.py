"""CIFAR-10 as people have it: the binary version, the python version, and lossless PNG sheets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from .formats import Format, RawSet, Step
from .unpickle import unpickle

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32

BATCHES = tuple(f"data_batch_{k}" for k in range(1, 6))
TEST = "test_batch"
TRAIN_LABELS, TEST_LABELS = "train_lables.json", "test_lables.json"  # spelt so in the package

Batch = tuple[np.ndarray, np.ndarray]
"""Images uint8 [N, 3, 32, 32] and labels uint8 [N] of one file."""


def _join(batches: list[Batch]) -> RawSet:
    """The last batch is the test set."""
    import torch

    images, labels = zip(*batches, strict=True)
    parts = {
        "train_images": np.concatenate(images[:-1]),
        "train_labels": np.concatenate(labels[:-1]),
        "test_images": np.array(images[-1]),
        "test_labels": np.array(labels[-1]),
    }
    return {name: torch.from_numpy(part) for name, part in parts.items()}


def read_binary(paths: Mapping[str, Path], step: Step) -> RawSet:
    """Records of one label byte and 3 × 32 × 32 pixel bytes, nothing else."""

    def batch(path: Path) -> Batch:
        data = np.fromfile(path, dtype=np.uint8)
        if not data.size or data.size % (PIXELS + 1):
            raise ValueError(f"{path} has {data.size} bytes, expected a multiple of {PIXELS + 1}: it is cut short.")
        records = data.reshape(-1, PIXELS + 1)
        step()
        return records[:, 1:].reshape(-1, *SHAPE), records[:, 0].copy()

    return _join([batch(paths[f"{name}.bin"]) for name in (*BATCHES, TEST)])


def read_python(paths: Mapping[str, Path], step: Step) -> RawSet:
    """Pickled dictionaries, of which only ``data`` and ``labels`` are used; no code in them can run."""

    def batch(path: Path) -> Batch:
        content = unpickle(path)
        images = content.get(b"data") if isinstance(content, dict) else None
        labels = content.get(b"labels") if isinstance(content, dict) else None
        if not isinstance(images, np.ndarray) or images.ndim != 2 or images.shape[1] != PIXELS:
            raise ValueError(f"{path} is not a CIFAR-10 batch: it has no array 'data' of {PIXELS} bytes per image.")
        if not isinstance(labels, list) or not all(isinstance(k, int) and 0 <= k < 10 for k in labels):
            raise ValueError(f"{path} is not a CIFAR-10 batch: it has no list 'labels' of numbers 0 to 9.")
        step()
        return images.reshape(-1, *SHAPE), np.array(labels, dtype=np.uint8)

    return _join([batch(paths[name]) for name in (*BATCHES, TEST)])


def read_png(paths: Mapping[str, Path], step: Step) -> RawSet:
    """One image per row of each sheet (pixels in reading order); labels as two JSON lists."""
    train, test = _json_labels(paths[TRAIN_LABELS]), _json_labels(paths[TEST_LABELS])
    labels = [*np.array_split(train, len(BATCHES)), test]
    sheets = []
    for name in (*BATCHES, TEST):
        sheets.append(_sheet(paths[f"{name}.png"]))
        step()
    return _join(list(zip(sheets, labels, strict=True)))


def _sheet(path: Path) -> np.ndarray:
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError) as error:  # pillow's words for a damaged PNG
        raise ValueError(f"{path} is not a readable PNG: {error}") from error
    if pixels.shape[1] != 32 * 32:
        raise ValueError(f"{path} is {pixels.shape[1]} pixels wide, expected {32 * 32}: one image per row.")
    return np.ascontiguousarray(pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))


def _json_labels(path: Path) -> np.ndarray:
    try:
        labels = json.loads(path.read_text())
        return np.array(labels, dtype=np.uint8)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{path} is not a list of labels: {error}") from error


PNG = Format(
    "PNG sheets",
    (*(f"{name}.png" for name in (*BATCHES, TEST)), TRAIN_LABELS, TEST_LABELS),
    read_png,
    checksums={
        "data_batch_1.png": "sha256:9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc",
        "data_batch_2.png": "sha256:47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f",
        "data_batch_3.png": "sha256:ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10",
        "data_batch_4.png": "sha256:b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5",
        "data_batch_5.png": "sha256:183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144",
        "test_batch.png": "sha256:ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09",
        TRAIN_LABELS: "sha256:a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45",
        TEST_LABELS: "sha256:a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6",
    },
)
BINARY = Format("CIFAR-10 binary version", tuple(f"{name}.bin" for name in (*BATCHES, TEST)), read_binary)
PYTHON = Format("CIFAR-10 python version", (*BATCHES, TEST), read_python)
