"""Folders of Hugging Face: weights in one safetensors file, or in several with an index, beside other files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from torch import Tensor

from . import plain
from .files import new_folder, read_any_tensors, read_header, refill

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
CONFIG = "config.json"


def read_folder(folder: Path) -> dict[str, Tensor]:
    """The state dict of a folder, in the order of its index."""
    places = _places(folder)
    files = {name: read_any_tensors(folder / name)[0] for name in dict.fromkeys(places.values())}
    for key, name in places.items():
        if key not in files[name]:
            raise ValueError(f"{folder / INDEX} says that '{key}' is in {name}, but it is not; get the folder again")
    return {key: files[name][key] for key, name in places.items()}


def write_folder(entries: Iterable[tuple[str, Tensor]], folder: Path, source: Path) -> None:
    """A folder like ``source`` with other tensors: the same shards, metadata and other files; complete or not at all.

    Args:
        entries: Names and tensors; what is not given stays as it is.
        folder: The new folder.
        source: A folder that :func:`read_folder` reads.
    """
    shards = dict.fromkeys(_places(source).values())
    with new_folder(folder) as temporary:
        # Files in a cache may be locked; copies of their content alone are not.
        shutil.copytree(source, temporary, dirs_exist_ok=True, copy_function=shutil.copyfile)
        refill([temporary / name for name in shards], entries)


def _places(folder: Path) -> dict[str, str]:
    """State dict entry → the file it is in."""
    if (folder / INDEX).is_file():
        listed = plain.parse((folder / INDEX).read_bytes(), str(folder / INDEX))
        places = listed.get("weight_map") if isinstance(listed, Mapping) else None
        if not isinstance(places, Mapping) or not places:
            raise ValueError(f"{folder / INDEX} has no weight_map from entries to files; get the folder again")
        for key, name in places.items():
            _require_shard(folder, key, name)
        return dict(places)
    if not (folder / WHOLE).is_file():
        raise FileNotFoundError(
            f"{folder} is a folder without {WHOLE} or {INDEX}, expected one of Hugging Face with safetensors; pass a "
            "file, or save the model there by save_pretrained(folder)"
        )
    return dict.fromkeys(read_header(folder / WHOLE)[0], WHOLE)


def _require_shard(folder: Path, key: str, name: object) -> None:
    """Raise unless an index names a safetensors file of its own folder."""
    if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
        raise ValueError(
            f"{folder / INDEX} puts '{key}' into {name!r}, expected the name of a safetensors file in the same folder"
        )
    if not os.path.isfile(folder / name):  # which knows names that no file can have, unlike Path.is_file
        raise FileNotFoundError(f"{folder / INDEX} names {name}, which is not there; get the folder again")
