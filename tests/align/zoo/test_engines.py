"""Shards are the same wherever they are trained, and a process that dies costs little."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from align.engines.processes import in_processes
from align.zoo import ZooConfig, build, building, engines
from align.zoo.engines import in_process, train_counted

Files = Callable[[Path], dict[str, bytes]]


def test_two_workers_give_the_bits_of_one(digits: ZooConfig, tmp_path: Path, files: Files) -> None:
    one = build(digits, 8, tmp_path / "one", workers=1)
    two = build(digits, 8, tmp_path / "two", workers=2)
    assert files(one.folder) == files(two.folder)
    assert not multiprocessing.active_children()


def test_a_dead_worker_is_reported_and_an_interrupt_ends_the_others(
    digits: ZooConfig, tmp_path: Path, files: Files
) -> None:
    steps: list[int] = []
    running = in_processes(partial(train_counted, digits), range(50), steps.append, 2)
    next(running)
    workers = multiprocessing.active_children()
    assert len(workers) == 2
    assert sum(steps) >= digits.recipe.steps(1260)
    running.close()  # what an exception in the consumer, or Ctrl-C, amounts to
    deadline = time.monotonic() + 600  # as long as anyone would wait; a moment is enough
    for worker in workers:
        while _exists(worker.pid or 0):  # not is_alive(): the pool's own thread may be the one that reaps the worker
            assert time.monotonic() < deadline, "workers end with the pool"
            multiprocessing.active_children()  # reaps those that ended
            time.sleep(0.05)

    victims = []

    def kill(_: int) -> None:
        if not victims:
            victims.append(multiprocessing.active_children()[0])
            os.kill(victims[0].pid or 0, signal.SIGKILL)

    with pytest.raises(RuntimeError, match=r"a worker process died .*the same command goes on"):
        list(in_processes(partial(train_counted, digits), range(50), kill, 2))


def test_shards_come_one_after_the_other(waves: ZooConfig) -> None:
    steps: list[int] = []
    results = list(in_process(waves, [2, 0], steps.append))
    assert [shard for shard, _, _ in results] == [2, 0]
    assert [r.number for r in results[0][2]] == [8, 9, 10, 11]
    assert steps == [1] * 4


def test_ray_that_is_not_installed_is_asked_for(waves: ZooConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"engine=ray needs Ray: pip install 'wsgraph\[ray\]'"):
        build(waves, 4, engine="ray")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ray_gives_the_same_bits_though_a_worker_is_killed(
    digits: ZooConfig, tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    local = build(digits, 8, tmp_path / "local")
    killed = tmp_path / "killed"
    work = engines.train_counted

    def fatal_once(config: ZooConfig, shard: int) -> engines.Result:
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return work(config, shard)

    monkeypatch.setattr(building, "train_counted", fatal_once)
    remote = build(digits, 8, tmp_path / "ray", engine="ray")
    assert killed.exists(), "a worker was at work when it was killed"
    assert files(local.folder) == files(remote.folder)
    assert not ray.is_initialized(), "what was started here is ended here"


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
