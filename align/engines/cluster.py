"""Work done on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from .processes import Done, Item, WorkerDiedError


def on_ray(
    work: Callable[[Item], Done], items: Sequence[Item], address: str | None = None, retries: int = -1
) -> Generator[Done, None, None]:
    """Items over a Ray cluster, one core each; results come in any order.

    A worker that dies costs its item only: Ray starts it again elsewhere.

    Args:
        work: What is done with an item.
        items: What there is to do.
        address: ``"auto"`` or a cluster's address; ``None`` starts Ray on this machine.
        retries: How many deaths of workers an item may cost; -1 for any number.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError("engine=ray needs Ray: pip install 'wsgraph[ray]'") from error
    started = not ray.is_initialized()
    if started:
        ray.init(address=address, log_to_driver=False, include_dashboard=False)
    try:
        remote: Any = ray.remote(num_cpus=1, max_retries=retries)(_do)
        shared = ray.put(work)
        waiting = [remote.remote(shared, item) for item in items]
        while waiting:
            (ready,), waiting = ray.wait(waiting)
            try:
                result: Done = ray.get(ready)
            except ray.exceptions.WorkerCrashedError as error:
                raise WorkerDiedError(
                    f"an item cost {retries + 1} workers their lives (out of memory?); what is finished is kept"
                ) from error
            yield result
    finally:
        if started:
            ray.shutdown()


def _do(work: Callable[[Item], Done], item: Item) -> Done:
    """In a worker."""
    return work(item)
