"""Build a zoo, or go on with one that is not finished."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from ..data import cache_folder
from ..progress import progress
from .config import ZooConfig
from .engines import BuildError, Result, in_process, in_processes, on_ray, train_counted
from .shard import Record, file_name, write_shard
from .zoo import INDEX, Zoo, read_index, write_index

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
    complete or not at all, and one process at a time may build.

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
    if count < 1:
        raise ValueError(f"count is {count}, expected at least one network")
    folder = Path(folder) if folder is not None else zoo_folder(config)
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        _sweep(folder)
        entries = _entries(folder, config)
        wanted = {*range(-(-count // config.together)), *entries}
        missing = sorted(wanted - set(Zoo(folder).sound_shards() if entries else ()))
        if missing:
            _train(config, folder, entries, missing, engine, workers, address)
    return Zoo(folder, count)


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
    return [Zoo(zoo_folder(config), count) for config in configs]


def _complete(config: ZooConfig, count: int) -> bool:
    """Whether all networks are in the index; whether their files are sound is found when they are opened."""
    folder = zoo_folder(config)
    return (folder / INDEX).is_file() and len(Zoo(folder)) >= count


def _train(
    config: ZooConfig,
    folder: Path,
    entries: dict[int, tuple[str, list[Record]]],
    missing: list[int],
    engine: str,
    workers: int,
    address: str | None,
) -> None:
    last = config.item_of((missing[-1] + 1) * config.together - 1)
    samples, _ = config.make_task().samples("train", last)  # an error, now and not at the end, if there is no such item
    title, done = f"training {len(missing) * config.together} networks ({config.name})", 0
    with progress(title, len(missing) * config.recipe.steps(len(samples))) as bar:

        def step(count: int) -> None:
            bar(note=f"{done} of {len(missing)} shards", advance=count)

        results: Generator[Result, None, None]
        if engine == "ray":
            results = on_ray(config, missing, step, address)
        elif workers > 1 and len(missing) > 1:
            results = in_processes(partial(train_counted, config), missing, step, min(workers, len(missing)))
        else:
            results = in_process(config, missing, step)
        with closing(results):  # ends the workers, whatever happens here
            for shard, tensors, records in results:
                entries[shard] = (write_shard(folder, shard, tensors), records)
                write_index(folder, config, entries)
                done += 1


def _entries(folder: Path, config: ZooConfig) -> dict[int, tuple[str, list[Record]]]:
    """Checksum and records of the shards that the index names, by number."""
    if not (folder / INDEX).is_file():
        return {}
    index = read_index(folder)
    if ZooConfig.from_json(index["config"]).to_json() != config.to_json():
        raise ValueError(f"{folder} holds a zoo of another config; choose another folder, or delete it first")
    return {int(k): (s["sha256"], [Record(**r) for r in s["records"]]) for k, s in index["shards"].items()}


def _sweep(folder: Path) -> None:
    """Remove the unfinished files of a builder that was killed."""
    for name in (INDEX, file_name(0).replace("00000", "*")):
        for path in folder.glob(f".{name}.*"):
            path.unlink()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep a second builder out; the system lifts the lock when this process ends, however it does."""
    import fcntl

    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BuildError(f"another process is building {folder}; wait for it, or stop it") from None
        yield
