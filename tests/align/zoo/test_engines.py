"""Shards are the same wherever they are trained, and a process that dies costs little."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from align.zoo import Recipe, ZooConfig, build
from align.zoo.engines import in_process, in_processes

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
    running = in_processes(digits, range(50), steps.append, 2)
    next(running)
    workers = multiprocessing.active_children()
    assert len(workers) == 2
    assert sum(steps) >= digits.recipe.steps(1260)
    running.close()  # what an exception in the consumer, or Ctrl-C, amounts to
    deadline = time.monotonic() + 60
    for worker in workers:
        while _exists(worker.pid or 0):  # not is_alive(): the pool's own thread may be the one that reaps the worker
            assert time.monotonic() < deadline, "workers end with the pool"
            multiprocessing.active_children()  # reaps those that ended
            time.sleep(0.05)

    config = replace(digits, recipe=Recipe(epochs=200, batch=64))

    def kill() -> None:
        while not multiprocessing.active_children():
            time.sleep(0.01)
        victim = multiprocessing.active_children()[0]
        time.sleep(0.1)
        os.kill(victim.pid or 0, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(RuntimeError, match=r"a worker process died .*the same command goes on"):
        build(config, 8, tmp_path, workers=2)
    thread.join()


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


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ray_gives_the_same_bits_though_a_worker_is_killed(
    digits: ZooConfig, tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # else its workers wait for every other test
    config = replace(digits, recipe=Recipe(epochs=40, batch=64))
    local = build(config, 8, tmp_path / "local")
    killed: list[int] = []

    def kill() -> None:
        while not killed:
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit() and _command(entry).startswith("ray::_work") and _ours(int(entry.name)):
                    os.kill(int(entry.name), signal.SIGKILL)
                    killed.append(int(entry.name))
                    return
            time.sleep(0.05)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    remote = build(config, 8, tmp_path / "ray", engine="ray")
    assert killed, "a worker was at work when it was killed"
    assert files(local.folder) == files(remote.folder)
    assert not ray.is_initialized(), "what was started here is ended here"


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _command(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _ours(pid: int) -> bool:
    """Whether this process started it, or started the one that did."""
    while pid > 1:
        if pid == os.getpid():
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
    return False
