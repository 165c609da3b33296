"""A zoo is the same however it came about: at once, in steps, enlarged, repaired, by several processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from align.zoo import Recipe, Zoo, ZooConfig, build, building
from align.zoo.shard import file_name
from wsgraph.alone import alone

Files = Callable[[Path], dict[str, bytes]]


def test_more_networks_keep_those_there_are(waves: ZooConfig, tmp_path: Path, files: Files) -> None:
    small = build(waves, 5, tmp_path / "zoo")
    assert len(small) == 6, "whole items"
    assert len(Zoo(small.folder)) == 8, "of whole shards"
    before = {path.name: path.stat() for path in small.folder.glob("shard-*")}
    large = build(waves, 13, tmp_path / "zoo")
    assert len(Zoo(large.folder)) == 16
    assert {name: (large.folder / name).stat() for name in before} == before
    at_once = build(waves, 16, tmp_path / "other")
    assert files(large.folder) == files(at_once.folder)
    build(waves, 3, tmp_path / "zoo")
    assert len(Zoo(large.folder)) == 16, "fewer are asked for: none is lost"


def test_a_finished_zoo_is_left_alone(waves: ZooConfig, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    zoo = build(waves, 8)
    before = {path: path.stat().st_mtime_ns for path in zoo.folder.glob("[!.]*")}
    monkeypatch.delattr(ZooConfig, "network")  # nothing can be trained now
    build(waves, 8)
    assert {path: path.stat().st_mtime_ns for path in zoo.folder.glob("[!.]*")} == before


def test_damaged_shards_are_built_again_wherever_they_are(waves: ZooConfig, files: Files) -> None:
    zoo = build(waves, 16)
    before = files(zoo.folder)
    (zoo.folder / file_name(1)).unlink()
    (zoo.folder / file_name(3)).write_bytes(b"?")
    untouched = (zoo.folder / file_name(2)).stat()
    build(waves, 1)
    assert files(zoo.folder) == before
    assert (zoo.folder / file_name(2)).stat() == untouched


def test_a_shard_that_cannot_be_built_again_stays_in_the_index(
    waves: ZooConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoo = build(waves, 12)
    for shard in (0, 2):
        (zoo.folder / file_name(shard)).unlink()
    write = building.write_shard

    def fail_at_two(folder: Path, shard: int, tensors: dict) -> str:
        if shard == 2:
            raise OSError("no space left on device")
        return write(folder, shard, tensors)

    monkeypatch.setattr(building, "write_shard", fail_at_two)
    with pytest.raises(OSError, match="no space left"):
        build(waves, 12)
    opened = Zoo(zoo.folder)
    assert len(opened) == 12
    assert opened.sound_shards() == [0, 1]


def test_unfinished_files_of_a_killed_builder_vanish(waves: ZooConfig, tmp_path: Path, files: Files) -> None:
    expected = files(build(waves, 4, tmp_path / "clean").folder)
    folder = tmp_path / "zoo"
    folder.mkdir()
    for name in (".zoo.json.x1y2", f".{file_name(0)}.ab_c", f".{file_name(9)}.defg"):
        (folder / name).write_bytes(b"half")
    build(waves, 4, folder)
    assert files(folder) == expected


def test_a_folder_of_another_config_is_refused(waves: ZooConfig, tmp_path: Path) -> None:
    build(waves, 4, tmp_path)
    with pytest.raises(ValueError, match="holds a zoo of another config; choose another folder, or delete it"):
        build(replace(waves, seed=1), 4, tmp_path)


def test_a_second_builder_is_refused(waves: ZooConfig, tmp_path: Path) -> None:
    refusal = f"another process is building {tmp_path}; wait for it"
    with alone(tmp_path, OSError()), pytest.raises(RuntimeError, match=refusal):
        build(waves, 4, tmp_path)
    build(waves, 4, tmp_path)


def test_a_finished_zoo_needs_no_lock_and_writes_nothing(
    waves: ZooConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(waves, 4, tmp_path)
    monkeypatch.setattr(building, "alone", lambda *_: pytest.fail("a lock is asked for"))
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: pytest.fail("a folder is made"))
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: pytest.fail("a file is removed"))
    assert len(build(waves, 4, tmp_path)) == 4


def test_too_many_views_are_refused_before_anything_is_trained(digits: ZooConfig) -> None:
    args = {"inputs": 2, "outputs": 1, "hidden": 4}
    config = replace(digits, make="inr", args=args, task="images", recipe=Recipe(epochs=10**9), views=2)
    with pytest.raises(ValueError, match=r"image 1\d\d\d was asked for, but the data set has 1260; lower count"):
        build(config, 2522)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine": "spark"}, "no engine 'spark'; choose one of local, ray"),
        ({"count": 0}, "count is 0, expected"),
        ({"count": "many"}, "count is 'many', expected a whole number of at least 1"),
        ({"workers": 0}, "workers is 0"),
    ],
)
def test_nonsense_is_refused(waves: ZooConfig, changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(waves, **{"count": 1, **changes})


def shards(folder: Path) -> int:
    """Shards in the index of a zoo that is being built."""
    try:
        return len(Zoo(folder)) // 4
    except FileNotFoundError:
        return 0


def children(pid: int) -> list[int]:
    """Processes that a process started."""
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in found.read_text().split()] if found.exists() else []


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


BUILDER = """
import os, signal, sys
from align.zoo import ZooConfig, build
config, folder, stop = {config}, sys.argv[1], int(sys.argv[2])
rename, renamed = os.replace, 0

def replace(source, target):
    global renamed
    renamed += 1
    if renamed == stop:
        print("unfinished", flush=True)
        signal.pause()
    rename(source, target)

if __name__ == '__main__':
    os.replace = replace  # how a finished file gets its name: first that of a shard, then the index, and so on
    build(ZooConfig.from_json(config), 48, folder, workers=2)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_killed_three_times_it_ends_with_the_same_zoo(tmp_path: Path, digits: ZooConfig, files: Files) -> None:
    """Killed between writing a file and naming it, which no clock could aim at."""
    config = replace(digits, args={"inputs": [1, 8, 8], "hidden": [16]}, together=4, recipe=Recipe(4, 64, 1e-3))
    whole = build(config, 48, tmp_path / "whole").folder
    folder = tmp_path / "killed"
    script = tmp_path / "run.py"
    script.write_text(BUILDER.format(config=config.to_json()))
    command = [sys.executable, str(script), str(folder)]
    done = 0
    for stop in (3, 4, 5):  # at a shard, at the index, at a shard
        with subprocess.Popen([*command, str(stop)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "unfinished\n"
            with pytest.raises(RuntimeError, match="another process is building"):
                build(config, 48, folder)
            workers = children(process.pid)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        assert len(workers) >= 2
        assert any(path.name.startswith(".") and path.name != ".lock" for path in folder.iterdir()), (
            "an unfinished file"
        )
        done += (stop - 1) // 2
        assert shards(folder) == done
        deadline = time.monotonic() + 600  # as long as anyone would wait; a moment is enough
        while any(alive(pid) for pid in workers):
            assert time.monotonic() < deadline, "workers end with the process that started them"
            time.sleep(0.02)
    assert 0 < shards(folder) < 12
    subprocess.run([*command, "0"], check=True, env={**os.environ, "OMP_NUM_THREADS": "2"})
    assert files(folder) == files(whole)
