"""A zoo's shards as work for :mod:`align.engines`: here, in several processes, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from ..engines.processes import count_step
from ..running.networks import Tensors
from .config import ZooConfig
from .shard import Record, train_shard

Result = tuple[int, Tensors, list[Record]]
"""A shard's number, its networks, and their records."""


class BuildError(RuntimeError):
    """A zoo could not be built; what is finished is kept."""


def in_process(config: ZooConfig, shards: Sequence[int], step: Callable[[int], None]) -> Generator[Result, None, None]:
    """One shard after the other, here."""
    task = config.make_task()
    for shard in shards:
        yield (shard, *train_shard(config, task, shard, lambda: step(1)))


def train_counted(config: ZooConfig, shard: int) -> Result:
    """Train a shard, counting its steps."""
    return (shard, *train_shard(config, config.make_task(), shard, count_step))
