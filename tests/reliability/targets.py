"""Everything that reads a file, as a function of the file's bytes that returns or refuses."""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import json
import pickle
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from PIL import Image
from torch import nn

from align import Alignment, DeepAlign, match
from align.data.cifar import _json_labels, _sheet
from align.data.idx import read_idx
from align.data.images import read_images
from align.data.unpickle import unpickle
from align.deep_align import CONFIG, WEIGHTS, config_from
from align.learning.checkpoint import MARK, NAME, _digest, load_checkpoint, save_checkpoint
from align.zoo import Recipe, Zoo, ZooConfig, build
from align.zoo.index import INDEX
from align.zoo.index import _digest as index_digest
from align.zoo.shard import file_name
from wsgraph import Permutation, Spec, plain, to_graph, trace
from wsgraph.checkpoints import read_checkpoint
from wsgraph.files import DIGEST
from wsgraph.files import digest_of as tensor_digest
from wsgraph.sharded import INDEX as SHARDS

REFUSALS = (ValueError, FileNotFoundError)
"""What a reader may answer to a file that is not what it reads; anything else is a bug."""


@dataclass(frozen=True)
class Target:
    """A reader of files.

    Args:
        read: Reads a content.
        seeds: Contents that it accepts.
        seal: Gives a damaged content the digest of a whole one, so that what is behind the digest is reached.
    """

    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    seal: Callable[[bytes], bytes] | None = None


@functools.cache
def folder() -> Path:
    """Where the files are written; in memory, where the system has a place for that."""
    memory = Path("/dev/shm")
    made = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None, prefix="wsgraph-fuzz-")
    _kept.append(made)
    return Path(made.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


def from_file(read: Callable[[Path], object], name: str) -> Callable[[bytes], object]:
    """A reader of contents from a reader of paths."""

    def run(content: bytes) -> object:
        path = folder() / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)  # a reader may still have the old one mapped into memory
        path.write_bytes(content)
        return read(path)

    return run


def seal_tensors(content: bytes) -> bytes:
    try:
        tensors = safetensors.torch.load(content)
        size = int.from_bytes(content[:8], "little")
        meta = json.loads(content[8 : 8 + size]).get("__metadata__") or {}
        meta.pop(DIGEST, None)
        sealed = f'"{DIGEST}":"{tensor_digest(tensors, meta)}"'.encode()
    except Exception:
        return content
    return re.sub(rb'"digest":"[0-9a-f]{64}"', sealed, content)


def seal_index(content: bytes) -> bytes:
    try:
        data = json.loads(content)
        return json.dumps({**data, "digest": index_digest(data)}).encode()
    except Exception:
        return content


def seal_checkpoint(content: bytes) -> bytes:
    body = content.rpartition(MARK)[0] or content
    return body + MARK + _digest(body)


def network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def spec_target() -> Target:
    deep = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))
    specs = [trace(network(0), torch.randn(2, 3)), trace(deep.eval(), torch.randn(2, 1, 4, 4))]
    return Target(
        lambda c: str(Spec.from_json(c.decode("utf-8", "replace"))), tuple(s.to_json().encode() for s in specs)
    )


def zoo_folder() -> Path:
    args = {"inputs": 1, "outputs": 1, "hidden": 3, "layers": 3}
    config = ZooConfig("waves", "inr", args, "waves", None, recipe=Recipe(1, 256), together=2, views=2)
    return build(config, 4, folder() / "zoo").folder


def index_target() -> Target:
    source = (zoo_folder() / INDEX).read_bytes()
    return Target(from_file(lambda path: repr(Zoo(path.parent)), f"index/{INDEX}"), (source,), seal_index)


def shard_target() -> Target:
    source = zoo_folder()
    index = json.loads((source / INDEX).read_text())

    def read(path: Path) -> object:
        index["shards"]["0"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()  # a stranger's index agrees
        (path.parent / INDEX).write_text(json.dumps({**index, "digest": index_digest(index)}))
        return Zoo(path.parent).module(1)

    return Target(from_file(read, f"shard/{file_name(0)}"), ((source / file_name(0)).read_bytes(),))


def config_target() -> Target:
    text = json.dumps({"encoder": {"hidden": 4, "codes": "grid"}, "scale": 2.0}).encode()
    return Target(lambda content: config_from(plain.parse(content, "it")), (text, b"{}"))


def aligner_target() -> Target:
    """The first byte says which of the two files the rest is."""
    whole = folder() / "whole"
    torch.manual_seed(0)
    DeepAlign({"encoder": {"hidden": 2, "output": 2, "messages": 2, "sweeps": 1, "basis": 2}}).save_pretrained(whole)
    names = {b"c": CONFIG, b"w": WEIGHTS}

    def read(content: bytes) -> object:
        target = folder() / "aligner"
        shutil.copytree(whole, target, dirs_exist_ok=True)
        name = names.get(content[:1], WEIGHTS)
        (target / name).unlink()
        (target / name).write_bytes(content[1:])
        return DeepAlign.from_pretrained(target)

    def seal(content: bytes) -> bytes:
        return content[:1] + seal_tensors(content[1:])

    return Target(read, tuple(key + (whole / name).read_bytes() for key, name in names.items()), seal)


def permutation_target() -> Target:
    spec = trace(network(0), torch.randn(2, 3))
    path = folder() / "permutation"
    Permutation(spec, {"0": torch.tensor([2, 0, 1, 3])}).save(path)
    hard = path.read_bytes()
    Permutation(spec, {"0": torch.eye(4)}).save(path)
    read = from_file(lambda p: Permutation.load(p, spec).apply(dict(network(0).state_dict())), "perm/x.safetensors")
    return Target(read, (hard, path.read_bytes()), seal_tensors)


def alignment_target() -> Target:
    a, b = (to_graph(network(k), torch.randn(2, 3)) for k in (0, 1))
    path = folder() / "alignment"
    match(a, b, "weight_matching").save(path)
    read = from_file(lambda p: repr(Alignment.load(p, a, b).permutation), "alignment-read/x.safetensors")
    return Target(read, (path.read_bytes(),), seal_tensors)


def checkpoint_target() -> Target:
    save_checkpoint(folder(), {"step": 3, "aligner": {"s": torch.arange(3.0)}, "needs": [1.0]})
    source = (folder() / NAME).read_bytes()
    return Target(from_file(lambda path: load_checkpoint(path.parent), f"run/{NAME}"), (source,), seal_checkpoint)


def idx_target() -> Target:
    seeds = tuple(
        bytes((0, 0, 8, 3)) + b"".join(n.to_bytes(4, "big") for n in s) + bytes(np.prod(s)) for s in ((2, 3, 3),)
    )
    return Target(from_file(lambda path: read_idx(path, 3), "idx/images"), seeds)


def gzip_target() -> Target:
    return Target(from_file(lambda path: read_idx(path, 3), "idx/images.gz"), (gzip.compress(idx_target().seeds[0]),))


def labels_target() -> Target:
    return Target(from_file(_json_labels, "labels/x.json"), (b"[0, 1, 9, 255]",))


def pickle_target() -> Target:
    content = {b"data": np.zeros((2, 12), np.uint8), b"labels": [1, 2], b"name": "x"}
    seeds = tuple(pickle.dumps(content, protocol=p) for p in (3, 4))
    return Target(from_file(unpickle, "pickle/batch"), seeds)


def sheet_target() -> Target:
    buffer = io.BytesIO()
    Image.new("RGB", (1024, 1)).save(buffer, "PNG")
    return Target(from_file(_sheet, "png/sheet.png"), (buffer.getvalue(),))


def state_dict_target() -> Target:
    content = safetensors.torch.save(dict(network(0).state_dict()), {"format": "pt"})
    return Target(from_file(lambda path: read_checkpoint(path).tensors, "given/x.safetensors"), (content,))


def pickled_target() -> Target:
    buffer, older = io.BytesIO(), io.BytesIO()
    torch.save({"model": network(0).state_dict(), "epoch": 3}, buffer)
    torch.save(network(0).state_dict(), older, _use_new_zipfile_serialization=False)
    read = from_file(lambda path: {k: t.sum() for k, t in read_checkpoint(path).tensors.items()}, "given/x.pt")
    return Target(read, (buffer.getvalue(), older.getvalue()))


def shards_target() -> Target:
    """The index; the shards that it names are whole."""
    home = folder() / "shards"
    home.mkdir()
    for name, key in (("one.safetensors", "a"), ("two.safetensors", "b")):
        safetensors.torch.save_file({key: torch.zeros(2)}, home / name)
    index = json.dumps({"metadata": {}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}).encode()
    return Target(from_file(lambda path: read_checkpoint(path.parent).tensors, f"shards/{SHARDS}"), (index,))


def image_target() -> Target:
    seeds = []
    for kind in ("PNG", "JPEG", "BMP", "WEBP"):
        buffer = io.BytesIO()
        Image.new("RGB", (6, 4), "red").save(buffer, kind)
        seeds.append(buffer.getvalue())

    def read(path: Path) -> object:
        return read_images(path.parent.parent, (3, 4, 4))

    def run(content: bytes) -> object:
        (folder() / "images").mkdir(exist_ok=True)
        return from_file(read, "images/cat/x.png")(content)

    return Target(run, tuple(seeds))


TARGETS: dict[str, Callable[[], Target]] = {
    "Spec, JSON": spec_target,
    "zoo.json": index_target,
    "config.json of an aligner": config_target,
    "labels, JSON": labels_target,
    "IDX": idx_target,
    "permutation": permutation_target,
    "alignment": alignment_target,
    "IDX, gzip": gzip_target,
    "CIFAR-10 pickle": pickle_target,
    "CIFAR-10 sheet, PNG": sheet_target,
    "shard of a zoo": shard_target,
    "checkpoint.pt": checkpoint_target,
    "aligner": aligner_target,
    "state dict": state_dict_target,
    "state dict, .pt": pickled_target,
    "index of shards": shards_target,
    "image": image_target,
}
"""Readers by name; those of JSON, IDX and permutations first."""
