"""Work done by several processes of this machine, each of which ends when this one does."""

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

Item = TypeVar("Item")
Done = TypeVar("Done")
POLL = 0.2
"""Seconds between two looks at the workers' progress."""


class WorkerDiedError(RuntimeError):
    """A process that worked for this one is gone."""


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
            raise WorkerDiedError(message) from None
        except BaseException:
            processes = list(pool._processes.values())  # shutdown forgets them
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            raise


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
