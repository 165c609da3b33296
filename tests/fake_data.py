"""Tiny data sets in every file format that ``align.data`` reads, and stand-ins for the registries' clients."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import pickle
import stat
import struct
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from align.data import catalogue
from align.data.catalogue import Entry
from align.data.formats import RawSet, digest

SIZES = (10, 4)


def raw_set(name: str) -> RawSet:
    """Ten training images and four test images of the right shape."""
    generator = torch.Generator().manual_seed(1)
    shape, tensors = catalogue.CATALOGUE[name].shape, {}
    for split, n in zip(("train", "test"), SIZES, strict=True):
        tensors[f"{split}_images"] = torch.randint(256, (n, *shape), generator=generator, dtype=torch.uint8)
        tensors[f"{split}_labels"] = torch.randint(10, (n,), generator=generator, dtype=torch.uint8)
    return tensors


def shrink(monkeypatch: pytest.MonkeyPatch, name: str) -> RawSet:
    """Make ``name`` in the catalogue a tiny set, checksum included, and return what it holds."""
    tensors = raw_set(name)
    entry: Entry = catalogue.CATALOGUE[name]
    formats = tuple(replace(format, checksums={}) for format in entry.formats)
    tiny = replace(entry, sizes=SIZES, digest=digest(tensors), formats=formats)
    monkeypatch.setitem(catalogue.CATALOGUE, name, tiny)
    return tensors


def write_idx(tensors: RawSet, folder: Path, *, compress: bool = False) -> None:
    for split, prefix in (("train", "train"), ("test", "t10k")):
        images, labels = tensors[f"{split}_images"][:, 0].numpy(), tensors[f"{split}_labels"].numpy()
        for name, array in ((f"{prefix}-images-idx3-ubyte", images), (f"{prefix}-labels-idx1-ubyte", labels)):
            content = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
            put(folder / (f"{name}.gz" if compress else name), gzip.compress(content) if compress else content)


def cifar_batches(tensors: RawSet) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{file name without suffix: (pixels uint8 [N, 3072], labels uint8 [N])}."""
    images, labels = tensors["train_images"].flatten(1).chunk(5), tensors["train_labels"].chunk(5)
    batches = {f"data_batch_{k + 1}": (images[k].numpy(), labels[k].numpy()) for k in range(5)}
    test = tensors["test_images"].flatten(1).numpy(), tensors["test_labels"].numpy()
    return {**batches, "test_batch": test}


def write_cifar_binary(tensors: RawSet, folder: Path) -> None:
    for name, (pixels, labels) in cifar_batches(tensors).items():
        put(folder / f"{name}.bin", np.concatenate([labels[:, None], pixels], 1).tobytes())


def write_cifar_python(tensors: RawSet, folder: Path, *, old: bool = True) -> None:
    """As Python 2 wrote the official files, or as Python 3 with protocol 3 would."""
    for name, (pixels, labels) in cifar_batches(tensors).items():
        content = {b"batch_label": name.encode(), b"labels": labels.tolist(), b"data": pixels}
        put(folder / name, old_pickle(content) if old else pickle.dumps(content, protocol=3))


def old_pickle(content: dict) -> bytes:
    """A protocol-2 pickle of Python 2, where strings are bytes and arrays are rebuilt by ``numpy.core``."""

    def string(text: bytes) -> bytes:
        return b"T" + struct.pack("<i", len(text)) + text

    def number(n: int) -> bytes:
        return b"J" + struct.pack("<i", n)

    def array(a: np.ndarray) -> bytes:
        dtype = b"cnumpy\ndtype\n(" + string(b"u1") + number(0) + number(1) + b"tR"
        dtype += b"(" + number(3) + string(b"|") + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"
        shape = b"(" + b"".join(map(number, a.shape)) + b"t"
        made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(" + number(0) + b"t" + string(b"b") + b"tR"
        return made + b"(" + number(1) + shape + dtype + b"\x89" + string(a.tobytes()) + b"tb"

    def value(v: object) -> bytes:
        if isinstance(v, np.ndarray):
            return array(v)
        return b"](" + b"".join(map(number, v)) + b"e" if isinstance(v, list) else string(v)  # type: ignore[arg-type]

    return b"\x80\x02}(" + b"".join(string(k) + value(v) for k, v in content.items()) + b"u."


def write_cifar_png(tensors: RawSet, folder: Path) -> None:
    for name, (pixels, _) in cifar_batches(tensors).items():
        sheet = pixels.reshape(-1, 3, 1024).transpose(0, 2, 1)
        buffer = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(sheet)).save(buffer, "PNG")
        put(folder / f"{name}.png", buffer.getvalue())
    for split in ("train", "test"):
        put(folder / f"{split}_lables.json", json.dumps(tensors[f"{split}_labels"].tolist()).encode())


def write_stl10(tensors: RawSet, folder: Path) -> None:
    for split in ("train", "test"):
        put(folder / f"{split}_X.bin", tensors[f"{split}_images"].transpose(2, 3).contiguous().numpy().tobytes())
        put(folder / f"{split}_y.bin", (tensors[f"{split}_labels"] + 1).numpy().tobytes())


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def sums(folder: Path) -> dict[str, str]:
    """Checksums of all files of a folder, as a format lists them."""
    return {p.name: f"sha256:{hashlib.sha256(p.read_bytes()).hexdigest()}" for p in folder.iterdir()}


def archive(folder: Path, path: Path) -> bytes:
    """A .tgz of the files in ``folder``, as ``npm pack`` writes it."""
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder, "package")
    return path.read_bytes()


def client(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, script: str) -> None:
    """Put a shell script called ``name`` in front of everything else on the path."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
