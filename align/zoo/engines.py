"""Where shards are trained: in this process, in several, or on a Ray cluster. The result is the same."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from ..progress import be_quiet
from ..running.networks import Tensors
from .config import ZooConfig
from .shard import Record, train_shard

Result = tuple[int, Tensors, list[Record]]
"""A shard's number, its networks, and their records."""
Item = TypeVar("Item")
Done = TypeVar("Done")
POLL = 0.2
"""Seconds between two looks at the workers' progress."""


class BuildError(RuntimeError):
    """A zoo could not be built; what is finished is kept."""


def in_process(config: ZooConfig, shards: Sequence[int], step: Callable[[int], None]) -> Generator[Result, None, None]:
    """One shard after the other, here."""
    task = config.make_task()
    for shard in shards:
        yield (shard, *train_shard(config, task, shard, lambda: step(1)))


def in_processes(
    work: Callable[[Item], Done], items: Sequence[Item], step: Callable[[int], None], workers: int
) -> Generator[Done, None, None]:
    """Several items at once, each in a process of its own; results come in any order.

    Args:
        work: What is done with an item; it calls :func:`count_step` where it makes progress.
        items: What there is to do.
        step: Called here with the number of steps since the last call.
        workers: Processes.
    """
    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    counter = context.Value("q", 0)
    with ProcessPoolExecutor(workers, context, _start_worker, (counter,)) as pool:
        waiting: set[Future[Done]] = {pool.submit(work, item) for item in items}
        seen = 0
        try:
            while waiting:
                done, waiting = wait(waiting, POLL, FIRST_COMPLETED)
                now = counter.value
                step(now - seen)
                seen = now
                yield from (future.result() for future in done)
        except BrokenProcessPool:
            message = "a worker process died (out of memory?); what is finished is kept, the same command goes on"
            raise BuildError(message) from None
        except BaseException:
            processes = list(pool._processes.values())  # shutdown forgets them
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            raise


def on_ray(
    config: ZooConfig, shards: Sequence[int], step: Callable[[int], None], address: str | None
) -> Generator[Result, None, None]:
    """Shards over a Ray cluster. A worker that dies costs its shard only: Ray starts it again elsewhere.

    Args:
        address: ``"auto"`` or a cluster's address; ``None`` starts Ray on this machine.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError("engine=ray needs Ray: pip install 'wsgraph[ray]'") from error
    started = not ray.is_initialized()
    if started:
        ray.init(address=address, log_to_driver=False, include_dashboard=False)
    try:
        remote = ray.remote(num_cpus=1, max_retries=-1)(train_counted)
        waiting = [remote.remote(config, shard) for shard in shards]
        while waiting:
            (ready,), waiting = ray.wait(waiting)
            result: Result = ray.get(ready)
            step(config.recipe.steps(len(config.make_task().samples("train")[0])))
            yield result
    finally:
        if started:
            ray.shutdown()


_counter: Any = None


def _start_worker(counter: Any) -> None:
    """In a new worker: count steps where the parent sees and shows them, and end when the parent does."""
    global _counter
    _counter = counter
    be_quiet()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def count_step() -> None:
    """In a worker: say that a step is done."""
    if _counter is not None:
        with _counter.get_lock():
            _counter.value += 1


def train_counted(config: ZooConfig, shard: int) -> Result:
    """Train a shard, counting its steps."""
    return (shard, *train_shard(config, config.make_task(), shard, count_step))
