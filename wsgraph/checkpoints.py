"""Networks on disk as others wrote them: safetensors, state dicts of ``torch.save``, folders of Hugging Face."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import safetensors.torch
import torch
from torch import Tensor

from .files import DIGEST, digest_of, in_memory, read_any_tensors, refill, replacing
from .huggingface import trained_model
from .sharded import read_folder, write_folder

SAFE = ".safetensors"
PICKLED = (".pt", ".pth", ".bin", ".ckpt")
"""Endings of what ``torch.save`` writes."""
EXPECTED = f"a {SAFE} file, a state dict of torch.save ({', '.join(PICKLED)}) or a folder of Hugging Face"
AnyPath: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A state dict, and what its file says besides.

    Attributes:
        path: The file or folder.
        tensors: In the order of the file.
        meta: The metadata of a safetensors file.
        as_it_is: Whether the file holds this and nothing else, so that a copy of it with other values is like it.
    """

    path: Path
    tensors: dict[str, Tensor]
    meta: dict[str, str] = field(default_factory=dict)
    as_it_is: bool = False

    def write(self, entries: Iterable[tuple[str, Tensor]], path: AnyPath) -> None:
        """The same with other tensors, as a file of the kind that ``path`` ends in, or as a folder like this one.

        Entries that are not given stay as they are, and so do types, metadata, the order of entries and, in a folder,
        all other files. From safetensors to safetensors, memory holds one entry at a time.

        Args:
            entries: Names and tensors.
            path: Where it goes.
        """
        path, held = Path(path), self.tensors
        new = ((name, tensor.to(held[name].dtype)) for name, tensor in entries)
        if path.suffix == SAFE and self.as_it_is:
            with replacing(path) as temporary:
                shutil.copyfile(self.path, temporary)
                refill([temporary], new)
        elif path.suffix in (SAFE, *PICKLED):
            all_of_it = in_memory({**held, **dict(new)})
            with replacing(path) as temporary:
                if path.suffix == SAFE:
                    safetensors.torch.save_file(all_of_it, temporary, self.meta or None)
                else:
                    torch.save(all_of_it, temporary)
        else:
            require_output(path, self.path)
            write_folder(new, path, self.path)


def read_checkpoint(path: AnyPath) -> Checkpoint:
    """Open a checkpoint, mapped into memory. Nothing in it is run: of pickles only tensors are read."""
    path = Path(path)
    if path.is_dir():
        return Checkpoint(path, read_folder(path))
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}; expected {EXPECTED}")
    if path.suffix == SAFE:
        tensors, meta = read_any_tensors(path)
        others = {k: v for k, v in meta.items() if k != DIGEST}
        ours = DIGEST in meta and meta[DIGEST] == digest_of(tensors, others)  # and does not fit other tensors
        return Checkpoint(path, tensors, others if ours else meta, as_it_is=not ours)
    if path.suffix in PICKLED:
        return Checkpoint(path, _read_pickled(path))
    raise ValueError(f"{path} ends in {path.suffix or 'nothing'!r}, expected {EXPECTED}; rename it to what it is")


def opened(network: Any) -> Any:
    """The network at a path: the state dict of a file, the module of a folder of Hugging Face; others as they are."""
    if not isinstance(network, (str, os.PathLike)):
        return network
    found = read_checkpoint(network)
    return trained_model(found.path, found.tensors) if found.path.is_dir() else found.tensors


def require_output(path: AnyPath, source: Path) -> None:
    """Raise unless a network read from ``source`` can be written to ``path``."""
    path = Path(path)
    if path.suffix in (SAFE, *PICKLED):
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder, expected the name of a file; choose another")
    elif not source.is_dir():
        raise ValueError(
            f"{path} is no name for a network: expected an ending of {', '.join((SAFE, *PICKLED))}; only from a folder "
            f"a folder is made, and {source} is a file"
        )
    elif path.exists():
        raise FileExistsError(f"{path} exists already, and a folder is never overwritten; remove it or choose another")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into; make it first")


def _read_pickled(path: Path) -> dict[str, Tensor]:
    with path.open("rb"):
        pass  # what cannot be opened says so itself
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # whatever a damaged or hostile file makes torch raise
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise ValueError(
            f"{path} cannot be read as a state dict ({reason}). Only tensors are read from pickles, for others can run "
            "code; if you trust the file, load it yourself and save its weights: torch.save(model.state_dict(), path)"
        ) from error
    return _state_dict(content, path)


def _state_dict(content: Any, path: Path) -> dict[str, Tensor]:
    """The one state dict in what a file holds, be it all of it or an entry beside an optimiser and such."""
    if _is_state_dict(content):
        return dict(content)
    entries = content if isinstance(content, Mapping) else {}
    inside = [key for key, value in entries.items() if _is_state_dict(value)]
    if len(inside) == 1:
        return dict(entries[inside[0]])
    holds = f"several state dicts, {inside}" if inside else f"a {type(content).__name__} without a state dict"
    raise ValueError(
        f"{path} holds {holds}; expected one, tensors by name: save the one you mean by "
        "torch.save(model.state_dict(), path)"
    )


def _is_state_dict(content: Any) -> bool:
    return (
        isinstance(content, Mapping)
        and len(content) > 0
        and all(isinstance(k, str) and isinstance(t, Tensor) for k, t in content.items())
    )
