"""A zoo of networks that somebody else trained, from their files: what an aligner of one's own learns from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from wsgraph.checkpoints import AnyPath, read_checkpoint
from wsgraph.entries import with_entries
from wsgraph.files import digest_of
from wsgraph.modules import tensors_of
from wsgraph.weights import require_finite

from ..data import DataSet
from ..data.dataset import Split
from ..progress import progress
from ..running.batches import is_pair
from ..running.networks import Tensors
from ..running.outputs import Loss, loss_of
from .config import ZooConfig
from .shard import Record, record_of
from .task import SplitName, Task
from .zoo import Zoo

FEWEST = 8
"""Networks of a zoo: four to train an aligner on, two to validate and two to test it."""
HELD = 6
"""One of so many networks validates, and one tests; at least two each, for a pair."""
JUDGES = 5
"""One of so many samples of a pair (inputs, targets) is for judging only."""


class GivenTask:
    """Samples of the user's, and their loss."""

    own = False

    def __init__(self, train: Split, test: Split, loss: Loss) -> None:
        self.loss = loss
        self.train, self.test = train, test

    def samples(self, part: SplitName, item: int = 0) -> Split:
        return self.train if part == "train" else self.test


@dataclass(frozen=True, eq=False)
class GivenConfig(ZooConfig):
    """What is known of networks of others: a module to hold them and their task, which are given and in no file."""

    template: nn.Module = field(kw_only=True)
    given: Task = field(kw_only=True)

    def __post_init__(self) -> None:
        """Nothing to check: there is no recipe."""

    def network(self, seed: int) -> nn.Module:
        return self.template

    def make_task(self) -> Task:
        return self.given

    def example_input(self) -> Tensor:
        return self.given.samples("train")[0][:2]


class GivenZoo(Zoo):
    """Networks in files of their own, read when they are asked for.

    Args:
        files: One per network; its place is the network's number.
        config: The module and the task.
        records: What is known of the networks.
        digest: Of their content and parts: whoever goes on with a training sees whether they are the same.
    """

    config: GivenConfig

    def __init__(
        self, files: Sequence[Path], config: GivenConfig, records: Sequence[Record] = (), digest: str = ""
    ) -> None:
        self.files, self.config, self.count, self.digest = files, config, None, digest
        self.folder = Path(f"{config.name}-{digest[:8]}")
        self.records = {record.number: record for record in records}

    def __reduce__(self) -> tuple[type[GivenZoo], tuple[Sequence[Path], GivenConfig, list[Record], str]]:  # type: ignore[override]
        return GivenZoo, (self.files, self.config, list(self.records.values()), self.digest)

    def tensors(self, number: int) -> Tensors:
        """A network's state dict, in the types of the module; entries that it does not know are left out."""
        path = self.files[number]
        found = read_checkpoint(path).tensors
        try:
            filled = tensors_of(with_entries(self.template, found, type(self.template).__name__))
            require_finite(filled)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        return {name: tensor.detach() for name, tensor in filled.items()}


def from_checkpoints(
    files: Sequence[AnyPath],
    *,
    model: nn.Module | Callable[[], nn.Module],
    data: DataSet | Split,
    loss: Loss | None = None,
    name: str = "own",
    seed: int = 0,
) -> Zoo:
    """Networks of one architecture, trained for one task, as a zoo to train an aligner on.

    Every network belongs to one part: ``train``, ``val`` or ``test``; about two thirds train the aligner.

    Args:
        files: One per network, at least eight: ``.safetensors``, state dicts of ``torch.save``, Hugging Face folders.
        model: A module of the architecture, or what makes one when called without arguments.
        data: What the networks were trained for: a :class:`~align.data.DataSet`, or a pair (inputs, targets), of which
            every fifth sample is kept for judging.
        loss: Mean loss of outputs and targets; by default cross-entropy for classes, squared error for numbers.
        name: For people: names the zoo in tables and reports.
        seed: Chooses which network belongs to which part.
    """
    paths = [Path(file).absolute() for file in files]
    if len(paths) < FEWEST:
        raise ValueError(
            f"got {len(paths)} networks, expected at least {FEWEST}: four to train an aligner on, two to validate and "
            "two to test it. For fewer, align.match needs no training"
        )
    template = (model if isinstance(model, nn.Module) else model()).eval()
    config = GivenConfig(name, "given", data=None, template=template, given=_task(data, loss))
    zoo = GivenZoo(paths, config)
    records, seen, digests = [], dict[str, int](), hashlib.sha256()
    parts = _parts(len(paths), seed)
    with progress("reading networks", len(paths)) as step:
        for number, part in enumerate(parts):
            tensors = zoo.tensors(number)
            digest = digest_of(tensors, {})
            digests.update(f"{digest} {part}".encode())
            twin = seen.setdefault(digest, number)
            if parts[twin] != part:
                raise ValueError(
                    f"{paths[twin]} and {paths[number]} hold the same network, one to {parts[twin]} and one to {part} "
                    "with: an aligner would be judged by what it learned from. Leave one of them out"
                )
            records.append(record_of(config, config.given, number, part, tensors))
            step()
    return GivenZoo(paths, config, records, digests.hexdigest())


def _parts(count: int, seed: int) -> list[str]:
    """The part of every network, by chance."""
    held = max(2, count // HELD)
    parts = ["val"] * held + ["test"] * held + ["train"] * (count - 2 * held)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
    return [parts[k] for k in order]


def _task(data: DataSet | Split, loss: Loss | None) -> GivenTask:
    if isinstance(data, DataSet):
        return GivenTask(data.train, data.test, loss or loss_of(data.train[1]))
    if not is_pair(data) or len(data[0]) != len(data[1]) or len(data[0]) < JUDGES:
        raise ValueError(
            f"data is a {type(data).__name__}, expected a DataSet or a pair (inputs, targets) of as many of both, at "
            f"least {JUDGES}"
        )
    judges = torch.arange(len(data[0])) % JUDGES == JUDGES - 1
    train, test = (tuple(part[chosen] for part in data) for chosen in (~judges, judges))
    return GivenTask(train, test, loss or loss_of(data[1]))  # type: ignore[arg-type]
