"""Tensors on disk: safetensors only, written atomically, with a digest that finds damage.

A digest finds what disks, networks and interrupted copies do to a file. It proves nothing about who made the file:
whoever changes it on purpose can write a new digest into it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import safetensors
import safetensors.torch
import torch
from torch import Tensor

DIGEST = "digest"
"""The entry of a file's metadata that holds the SHA-256 of all the rest."""
PICKLES = (b"\x80", b"PK\x03\x04")
"""How files of ``pickle`` and ``torch.save`` begin."""

log = logging.getLogger(__name__)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file to write, which takes the place of ``path`` when all went well and vanishes when not."""
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            os.chmod(temporary, 0o666 & ~_umask())  # mkstemp's own mode would lock out everybody else
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except (OSError, safetensors.SafetensorError) as error:
        raise OSError(
            f"{path} could not be written: {error}. What was there before is unchanged; make room, or choose a folder "
            "that can be written to, and run the same again"
        ) from error


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder to fill, which becomes ``path`` when all went well and vanishes when not."""
    path = Path(path)
    if path.exists():
        raise FileExistsError(f"{path} exists already, and a folder is never overwritten; remove it or choose another")
    temporary = Path(tempfile.mkdtemp(dir=path.absolute().parent, prefix=f".{path.name}."))
    try:
        yield temporary
        os.chmod(temporary, 0o777 & ~_umask())  # as of mkstemp
        os.replace(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def save_tensors(tensors: Mapping[str, Tensor], path: str | os.PathLike[str], meta: Mapping[str, str]) -> None:
    """Write ``tensors`` and ``meta`` with a digest to ``path``; the file appears complete or not at all."""
    plain = in_memory(tensors)
    with replacing(path) as temporary:
        safetensors.torch.save_file(plain, temporary, {**meta, DIGEST: digest_of(plain, meta)})


def in_memory(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies on the CPU, each with memory of its own, as safetensors wants them."""
    return {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def load_tensors(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a file of the given ``kind`` that :func:`save_tensors` wrote."""
    tensors, meta = read_tensors(path)
    if meta.get("kind") != kind:
        raise ValueError(f"{path} is not a {kind} file (its kind is {meta.get('kind', 'not given')!r})")
    return tensors, meta


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file; one with a digest must be what it was when it was written."""
    tensors, meta = read_any_tensors(path)
    expected = meta.pop(DIGEST, None)
    if expected is None:
        log.info("%s has no digest: whether it is damaged cannot be told", path)
    elif (got := digest_of(tensors, meta)) != expected:
        raise ValueError(
            f"{path} is damaged: the SHA-256 of its content is {got}, but it says {expected}. Get or save it again."
        )
    return tensors, meta


def read_any_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file, whoever wrote it."""
    with _open(path) as file:
        return {k: file.get_tensor(k) for k in file.keys()}, file.metadata() or {}  # noqa: SIM118 - not a dict


def read_header(path: str | os.PathLike[str]) -> tuple[list[str], dict[str, str]]:
    """Names of the tensors and metadata of a safetensors file."""
    with _open(path) as file:
        return list(file.keys()), file.metadata() or {}


def refill(paths: Iterable[str | os.PathLike[str]], entries: Iterable[tuple[str, Tensor]]) -> None:
    """Put other values into safetensors files, one entry after the other: memory holds one at a time.

    Args:
        paths: The files; together they have an entry of every name, with type and shape.
        entries: Names and values.
    """
    with ExitStack() as stack:
        places: dict[str, tuple[BinaryIO, int, int]] = {}
        for path in paths:
            file: BinaryIO = stack.enter_context(open(path, "r+b"))
            size = int.from_bytes(file.read(8), "little")
            for name, entry in json.loads(file.read(size)).items():
                if name != "__metadata__":
                    first, last = entry["data_offsets"]
                    places[name] = file, 8 + size + first, last - first
        for name, tensor in entries:
            file, start, length = places[name]
            content = tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data
            if len(content) != length:
                raise ValueError(f"'{name}' has {len(content)} bytes, and {length} in {file.name}; read the file again")
            file.seek(start)
            file.write(content)


@contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[Any]:
    try:
        with safetensors.safe_open(str(path), framework="pt") as file:
            yield file
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is not a readable safetensors file: {error}. {_advice(path)}") from error


def _advice(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        pickled = file.read(4).startswith(PICKLES)
    if pickled:
        return (
            "It is a pickle (torch.save), whatever its name says, and pickles are not opened here: they can run code. "
            "If you trust it, read it with torch.load(path, weights_only=True) and save it with safetensors."
        )
    return "It may be truncated; save it again."


def differences(expected: Mapping[str, Tensor], got: Mapping[str, Tensor]) -> str:
    """What tensors lack, have too much, or have of another shape or type than parameters should; nothing if all fits.

    >>> differences({"a": torch.zeros(2), "b": torch.zeros(3)}, {"b": torch.zeros(4), "c": torch.zeros(1)})
    'it lacks a; it has the unknown c; it has another shape or type of b'
    """

    def some(names: list[str]) -> str:
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

    fits = {k: got[k].shape == t.shape and got[k].is_floating_point() for k, t in expected.items() if k in got}
    wrong = {
        "lacks": [name for name in expected if name not in got],
        "has the unknown": [name for name in got if name not in expected],
        "has another shape or type of": [name for name, fit in fits.items() if not fit],
    }
    return "; ".join(f"it {what} {some(names)}" for what, names in wrong.items() if names)


def digest_of(tensors: Mapping[str, Tensor], meta: Mapping[str, str]) -> str:
    """SHA-256 over metadata, and names, types, shapes and bytes of the tensors."""
    sha = hashlib.sha256(json.dumps(dict(meta), sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        sha.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()
