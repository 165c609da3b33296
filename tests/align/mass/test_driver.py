"""Mass alignment survives the death of its driver and of its workers, with the results of an undisturbed run."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from align.cli.mass import _load
from align.engines.processes import WorkerDiedError
from align.mass import Job, Results, align_all, driver, pairs_of
from align.mass.driver import DEATHS
from align.mass.results import SCHEMA

SIZE = 2
OPTIONS = f"--method weight_matching --workers 1 --part {SIZE}"
DESCRIBED = {"model": None, "data": None, "points": 11, "example_input": "None"}
LOAD = partial(_load, None, None, "")


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("networks")
    for k in range(14):
        torch.manual_seed(k)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        save_file(model.state_dict(), folder / f"{k:02d}.safetensors")
    return folder


def assert_undisturbed(results: Results, job: Job, pairs: list[tuple[str, str]]) -> None:
    """The table and permutations are those of one process that does all pairs in turn."""
    rows, maps = job.part(list(enumerate(pairs)))
    found = results.table.drop_columns(["seconds"]).to_pylist()
    columns = [name for name in SCHEMA.names if name != "seconds"]
    assert found == [{name: row.get(name) for name in columns} for row in rows]
    assert all(row["error"] is None and row["distance"] < row["distance_before"] for row in found)
    for k in (0, len(pairs) - 1):
        assert {name: idx.tolist() for name, idx in results.maps(k).items()} == {
            name.partition("/")[2]: idx.tolist() for name, idx in maps.items() if name.startswith(f"{k}/")
        }


def test_a_driver_that_is_killed_is_gone_on_with_though_a_worker_dies(
    networks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    command = [sys.executable, "-m", "align", "many", str(networks), "-o", str(folder), *OPTIONS.split()]
    running = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
    while not (folder / "part-00000.parquet").exists():
        assert running.poll() is None
        time.sleep(0.01)
    running.kill()
    running.wait()
    assert not (folder / "table.parquet").exists()
    before = {path: path.stat().st_mtime_ns for path in folder.glob("part-*.parquet")}

    calls = []

    def dies_once(work: Callable[[Any], Any], items: Sequence[Any], *_: Any) -> Any:
        calls.append(len(items))
        yield work(items[-1])
        if len(calls) == 1:
            raise WorkerDiedError("a worker process died")
        yield from map(work, items[:-1])

    monkeypatch.setattr(driver, "in_processes", dies_once)
    pairs, job = pairs_of([networks]), Job(LOAD, "weight_matching")
    results = align_all(pairs, job, folder, size=SIZE, described=DESCRIBED)
    assert calls[1] == calls[0] - 1
    assert {path: path.stat().st_mtime_ns for path in before} == before, "what was done is not done again"
    assert_undisturbed(results, job, pairs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ray_survives_the_death_of_a_worker(networks: Path, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    killed, load = tmp_path / "killed", LOAD

    def fatal_once(a: str, b: str) -> Any:
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return load(a, b)

    pairs = pairs_of([networks])[:8]
    results = align_all(pairs, Job(fatal_once, "weight_matching"), tmp_path / "out", engine="ray", size=SIZE)
    assert killed.exists()
    assert_undisturbed(results, Job(LOAD, "weight_matching"), pairs)
    assert not ray.is_initialized(), "what was started here is ended here"


def test_workers_that_always_die_end_it(networks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def dying(*_: Any) -> Any:
        started.append(1)
        raise WorkerDiedError("a worker process died")
        yield

    monkeypatch.setattr(driver, "in_processes", dying)
    with pytest.raises(WorkerDiedError):
        align_all(pairs_of([networks]), Job(LOAD, "identity"), tmp_path)
    assert len(started) == DEATHS + 1


def test_pairs_are_those_of_a_table_or_all_of_some_folders(networks: Path, tmp_path: Path) -> None:
    assert len(pairs_of([networks])) == 14 * 13 / 2
    table = networks / "pairs.csv"
    table.write_text("b,weight,a\n01.safetensors,3,00.safetensors\n")
    assert pairs_of([table]) == [(str(networks / "00.safetensors"), str(networks / "01.safetensors"))]
    for text, message in {
        "a,c\nx,y\n": r"has the columns \['a', 'c'\], expected a and b",
        "a,b\n00.safetensors\n": "line 2 has no b",
        "a,b\n": "there is no pair of networks",
        "a,b\n00.safetensors,gone.pt\n": "1 of the networks are not there, the first is .*gone.pt",
    }.items():
        table.write_text(text)
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            pairs_of([table])
    with pytest.raises(ValueError, match="names pairs by itself"):
        pairs_of([table, networks])
    table.unlink()
