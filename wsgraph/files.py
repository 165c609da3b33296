"""Tensors on disk: safetensors only, written atomically, with a kind so that one file is not taken for another."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file to write, which takes the place of ``path`` when all went well and vanishes when not."""
    path = Path(path)
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


def save_tensors(tensors: Mapping[str, Tensor], path: str | os.PathLike[str], meta: Mapping[str, str]) -> None:
    """Write ``tensors`` and ``meta`` to ``path``; the file appears complete or not at all."""
    plain = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}
    with replacing(path) as temporary:
        safetensors.torch.save_file(plain, temporary, dict(meta))


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def load_tensors(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a file of the given ``kind`` that :func:`save_tensors` wrote."""
    try:
        with safetensors.safe_open(str(path), framework="pt") as file:
            meta = file.metadata() or {}
            if meta.get("kind") != kind:
                raise ValueError(f"{path} is not a {kind} file (its kind is {meta.get('kind', 'not given')!r})")
            return {k: file.get_tensor(k) for k in file.keys()}, meta  # noqa: SIM118 - not a dict
    except safetensors.SafetensorError as error:
        raise ValueError(
            f"{path} is not a readable safetensors file: {error}. It may be truncated; save it again."
        ) from error
