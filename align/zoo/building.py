"""Build a zoo, or go on with one that is not finished."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from wsgraph.alone import alone

from ..data import cache_folder
from ..engines.cluster import on_ray
from ..engines.processes import in_processes
from ..progress import progress
from .config import ZooConfig
from .engines import BuildError, Result, in_process, train_counted
from .index import INDEX, Shard, read_index, write_index
from .shard import file_name, write_shard
from .zoo import Zoo

ENGINES = ("local", "ray")


def zoo_folder(config: ZooConfig) -> Path:
    """Where the zoo lives unless told otherwise: ``zoos/`` in the cache folder."""
    return cache_folder() / "zoos" / config.folder_name


def build(
    config: ZooConfig,
    count: int,
    folder: str | os.PathLike[str] | None = None,
    engine: str = "local",
    workers: int = 1,
    address: str | None = None,
) -> Zoo:
    """Train what is missing of a zoo of at least ``count`` networks, and open those.

    A shard counts when the index names it and its file has the index's checksum; others are trained, so the same call
    starts, resumes, repairs and enlarges a zoo. The index is rewritten after every shard, each file appears
    complete or not at all, and one process at a time may build. A zoo that has it all is only read: any number of
    processes may do so at once, in a folder that cannot be written to.

    Args:
        config: What defines the zoo.
        count: Networks to have at least (whole shards are trained), and to open: what is found does not depend on how
            many more the folder has.
        folder: The zoo's folder; by default chosen by the config, in the cache folder.
        engine: ``local``, or ``ray`` for a Ray cluster.
        workers: Processes of the local engine.
        address: Of the Ray cluster; ``None`` starts Ray on this machine.
    """
    if engine not in ENGINES:
        raise ValueError(f"no engine {engine!r}; choose one of {', '.join(ENGINES)}")
    for name, value in (("count", count), ("workers", workers)):
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r}, expected a whole number of at least 1")
    folder = Path(folder) if folder is not None else zoo_folder(config)
    if _missing(folder, config, count):
        with alone(folder, BuildError(f"another process is building {folder}; wait for it, or stop it")):
            _sweep(folder)
            if missing := _missing(folder, config, count):  # the other process may have built some since
                _train(config, folder, _shards(folder, config), missing, engine, workers, address)
    return Zoo(folder, count, config.own)


def _missing(folder: Path, config: ZooConfig, count: int) -> list[int]:
    """Shards to train: those that ``count`` networks need, and damaged ones."""
    there = _shards(folder, config)
    wanted = {*range(-(-count // config.together)), *there}
    return sorted(wanted - set(Zoo(folder, make=config.own).sound_shards() if there else ()))


def build_all(configs: Sequence[ZooConfig], count: int, workers: int = 1) -> list[Zoo]:
    """:func:`build` of many small zoos, each by one of several processes; the same call goes on after an interruption.

    Args:
        configs: What defines the zoos.
        count: Networks of each.
        workers: Processes.
    """
    missing = [c for c in configs if not _complete(c, count)]
    with progress(f"{len(configs)} zoos of {count} networks", len(configs)) as step:
        step(advance=len(configs) - len(missing))
        work = partial(build, count=count)
        done = in_processes(work, missing, lambda _: None, workers) if workers > 1 else map(work, missing)
        for zoo in done:
            step(note=zoo.config.name)
    return [Zoo(zoo_folder(config), count, config.own) for config in configs]


def _complete(config: ZooConfig, count: int) -> bool:
    """Whether all networks are in the index; whether their files are sound is found when they are opened."""
    folder = zoo_folder(config)
    return (folder / INDEX).is_file() and len(Zoo(folder, make=config.own)) >= count


def _train(
    config: ZooConfig,
    folder: Path,
    shards: dict[int, Shard],
    missing: list[int],
    engine: str,
    workers: int,
    address: str | None,
) -> None:
    last = config.item_of((missing[-1] + 1) * config.together - 1)
    samples, _ = config.make_task().samples("train", last)  # an error, now and not at the end, if there is no such item
    title, done = f"training {len(missing) * config.together} networks ({config.name})", 0
    steps, work = config.recipe.steps(len(samples)), partial(train_counted, config)
    with progress(title, len(missing) * steps) as bar:

        def step(count: int) -> None:
            bar(note=f"{done} of {len(missing)} shards", advance=count)

        results: Generator[Result, None, None]
        if engine == "ray":
            results = on_ray(work, missing, address)
        elif workers > 1 and len(missing) > 1:
            results = in_processes(work, missing, step, min(workers, len(missing)))
        else:
            results = in_process(config, missing, step)
        with closing(results):  # ends the workers, whatever happens here
            for shard, tensors, records in results:
                shards[shard] = Shard(write_shard(folder, shard, tensors), tuple(records))
                write_index(folder, config, shards)
                done += 1
                if engine == "ray":
                    step(steps)  # which its workers do not count


def _shards(folder: Path, config: ZooConfig) -> dict[int, Shard]:
    """The shards that the index names, by number."""
    if not (folder / INDEX).is_file():
        return {}
    index = read_index(folder, config.own)
    if index.config.to_json() != config.to_json():
        raise ValueError(f"{folder} holds a zoo of another config; choose another folder, or delete it first")
    return dict(index.shards)


def _sweep(folder: Path) -> None:
    """Remove the unfinished files of a builder that was killed."""
    for name in (INDEX, file_name(0).replace("00000", "*")):
        for path in folder.glob(f".{name}.*"):
            path.unlink()
