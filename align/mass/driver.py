"""Align all pairs of a list, by any number of workers; what is finished is kept, and the same call goes on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from wsgraph.alone import alone

from ..engines.cluster import on_ray
from ..engines.processes import WorkerDiedError, in_processes
from ..progress import progress
from .job import Job, Row
from .pairs import Pair
from .results import Results

ENGINES = ("processes", "ray")
PART = 64
"""Pairs that are done, sent back and written together: what a worker that dies costs."""
DEATHS = 3
"""Workers that may die one after the other before anything is finished."""
Item = tuple[int, list[tuple[int, Pair]]]
"""The number of a part, and its pairs with theirs."""
Part = tuple[int, list[Row], dict[str, Tensor]]
"""The number of a part, its rows and its permutations."""
Engine = Callable[[list[Item]], Generator[Part, None, None]]


def align_all(
    pairs: Sequence[Pair],
    job: Job,
    folder: str | os.PathLike[str],
    *,
    engine: str = "processes",
    workers: int = 1,
    address: str | None = None,
    size: int = PART,
    described: Mapping[str, Any] | None = None,
) -> Results:
    """Align what is not aligned yet, and open the results.

    Args:
        pairs: Paths of networks.
        job: What is done with each pair.
        folder: Where results go; only this process writes, workers read networks.
        engine: ``processes`` of this machine, or ``ray``.
        workers: Processes.
        address: Of the Ray cluster; ``None`` starts Ray on this machine.
        size: Pairs per part.
        described: The job in words and numbers, by which it is told apart from others in this folder.
    """
    if engine not in ENGINES:
        raise ValueError(f"no engine {engine!r}; choose one of {', '.join(ENGINES)}")
    for name, value in (("workers", workers), ("size", size)):
        if value < 1:
            raise ValueError(f"{name} is {value}, expected at least 1")
    results, count = Results(folder), -(-len(pairs) // size)
    digest = hashlib.sha256(repr(list(pairs)).encode()).hexdigest()
    plan = {"pairs": len(pairs), "digest": digest, "size": size, "method": job.method, "seed": job.seed}
    with alone(Path(folder), RuntimeError(f"another process is at work in {folder}; wait for it, or stop it")):
        results.begin({**plan, **(described or {})})
        missing = [(part, _numbered(pairs, size, part)) for part in range(count) if not results.done(part)]
        work = partial(_do, job)
        engines: dict[str, Engine] = {
            "ray": lambda items: on_ray(work, items, address, DEATHS),
            "processes": lambda items: in_processes(work, items, lambda _: None, min(workers, len(items))),
        }
        with progress(f"aligning {len(pairs)} pairs", len(pairs)) as bar:
            bar(advance=len(pairs) - sum(len(numbered) for _, numbered in missing))
            for part, rows, maps in _surviving(engines[engine], missing):
                results.write(part, rows, maps)
                bar(advance=len(rows))
        results.finish(count)
    return results


def _surviving(engine: Engine, items: Sequence[Item]) -> Generator[Part, None, None]:
    """The results of all parts; when a worker dies, new ones are started for what is left."""
    left, deaths = dict(items), 0
    while left:
        try:
            with closing(engine(list(left.items()))) as running:  # ends the workers, whatever happens here
                for part in running:
                    del left[part[0]]
                    deaths = 0
                    yield part
        except WorkerDiedError:
            deaths += 1
            if deaths > DEATHS:
                raise


def _do(job: Job, item: Item) -> Part:
    """In a worker."""
    part, numbered = item
    return (part, *job.part(numbered))


def _numbered(pairs: Sequence[Pair], size: int, part: int) -> list[tuple[int, Pair]]:
    return list(enumerate(pairs[part * size : (part + 1) * size], part * size))
