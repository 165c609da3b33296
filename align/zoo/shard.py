"""A shard: networks of one architecture, stacked, in one safetensors file, with a record of each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from wsgraph.files import replacing

from ..data.dataset import Split
from ..running.networks import Tensors
from ..running.outputs import evaluate
from .config import ZooConfig
from .memory import keep_freed_memory
from .task import Task
from .together import train_alone, train_together

JUDGED = 5_000
"""Samples on which the recorded losses are measured."""
KIND = "zoo-shard"


@dataclass(frozen=True)
class Record:
    """What is known of one network.

    Attributes:
        number: Its place in the zoo.
        item: What it is a view of; its own number where there are no items.
        seed: Of initialisation and order of the data.
        part: ``train``, ``val`` or ``test``: what aligners may use it for.
        train_loss, test_loss: Mean loss on samples it learned from, and on others.
        train_accuracy, test_accuracy: Share of right answers; ``None`` where targets are not classes.
    """

    number: int
    item: int
    seed: int
    part: str
    train_loss: float
    test_loss: float
    train_accuracy: float | None = None
    test_accuracy: float | None = None


def train_shard(
    config: ZooConfig, task: Task, shard: int, step: Callable[[], None] = lambda: None
) -> tuple[Tensors, list[Record]]:
    """Train the networks of one shard, on one thread: more would change the last bits.

    Returns:
        Tensors with a leading axis of networks, and the networks' records.
    """
    keep_freed_memory()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        networks = _train(config, task, shard, step)
        numbers = range(shard * config.together, (shard + 1) * config.together)
        records = [record_of(config, task, n, config.part_of(n), t) for n, t in zip(numbers, networks, strict=True)]
    finally:
        torch.set_num_threads(threads)
    return {k: torch.stack([n[k] for n in networks]) for k in networks[0]}, records


def _train(config: ZooConfig, task: Task, shard: int, step: Callable[[], None]) -> list[Tensors]:
    numbers = range(shard * config.together, (shard + 1) * config.together)
    seeds = [config.seed_of(n) for n in numbers]
    models = [config.network(seed) for seed in seeds]
    x, y = task.samples("train", config.item_of(numbers[0]))
    if config.together == 1:
        return [train_alone(models[0], seeds[0], x, y, config.recipe, task.loss, step)]
    if task.own:
        y = torch.stack([task.samples("train", config.item_of(n))[1] for n in numbers])
    return train_together(models, seeds, x, y, config.recipe, task.loss, task.own, step)


def record_of(config: ZooConfig, task: Task, number: int, part: str, tensors: Tensors) -> Record:
    """What is known of a network, its losses measured."""
    item, template = config.item_of(number), config.network(0).eval()

    def judge(samples: Split) -> tuple[float, float | None]:
        x, y = (t[:JUDGED] for t in samples)
        loss, accuracy = evaluate(template, [tensors], task.loss, (x, y))
        return float(loss), None if accuracy is None else float(accuracy)

    train, test = judge(task.samples("train", item)), judge(task.samples("test", item))
    return Record(number, item, config.seed_of(number), part, train[0], test[0], train[1], test[1])


def file_name(shard: int) -> str:
    """The shard's file in the zoo's folder."""
    return f"shard-{shard:05d}.safetensors"


def write_shard(folder: Path, shard: int, tensors: Tensors) -> str:
    """Write the file and return its SHA-256, which the index keeps.

    Its metadata is one entry, without a digest of its own: the order of several is random, and equal shards are equal
    bit for bit.
    """
    with replacing(folder / file_name(shard)) as temporary:
        safetensors.torch.save_file(dict(tensors), temporary, {"kind": KIND})
    return checksum(folder / file_name(shard))


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class OpenShard:
    """A shard's file, memory-mapped: a network is read when it is asked for.

    Args:
        path: The file.
        count: Networks in it.
    """

    def __init__(self, path: Path, count: int) -> None:
        self._file = safetensors.safe_open(str(path), framework="pt")
        for name in self._file.keys():  # noqa: SIM118 - not a dict
            shape = self._file.get_slice(name).get_shape()
            if shape[:1] != [count]:
                raise ValueError(f"{name} has the shape {shape}, expected {count} networks along its first axis")

    def tensors(self, place: int) -> dict[str, Tensor]:
        """One network's tensors."""
        names = self._file.keys()
        return {name: self._file.get_slice(name)[place].clone() for name in names}  # else changes would stay
