"""The commands under faults: what they say, and whether the same command then ends as if nothing had been."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

COLUMNS = ("command", "fault", "what it says", "afterwards")
WORDS = {
    "zoo": ("+arch=mlp", "count=24", "workers=1", "arch.together=4", "arch.args.hidden=[16]", "folder=out"),
    "train": (
        *("+arch=mlp", "zoo.count=24", "zoo.workers=1", "arch.args.hidden=[8,8]", "data.epochs=1", "output=out"),
        *("optim.steps=40", "optim.pairs=2", "optim.labelled=2", "optim.validate=0", "optim.checkpoint=5"),
        *("eval.pairs=2", "eval.points=3", "eval.sinkhorn=0", "encoder.hidden=16", "encoder.output=16"),
    ),
}
FIRST = {"zoo": "zoo.json", "train": "checkpoint.pt"}
"""The file that shows that a command is at work."""
SMALL_FILES = 12_000
"""Bytes of the largest file where a disk is to be full: none of the tensors fit."""


@dataclass(frozen=True)
class Row:
    """A line of the table, whether it is as it must be, and the command's own words."""

    cells: tuple[str, ...]
    good: bool
    output: str


class Place:
    """A folder of its own in which a command is run."""

    def __init__(self, command: str, folder: Path) -> None:
        self.command, self.folder, self.out = command, folder, folder / "out"
        self.environment = {**os.environ, "WSGRAPH_DATA": str(folder / "cache"), "OMP_NUM_THREADS": "1"}

    def start(self, prepare: Callable[[], None] | None = None) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", f"align.{self.command}", *WORDS[self.command]]
        return subprocess.Popen(
            words, cwd=self.folder, env=self.environment, preexec_fn=prepare, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, prepare: Callable[[], None] | None = None) -> tuple[int, str]:
        process = self.start(prepare)
        output, _ = process.communicate()
        return process.returncode, output

    def at_work(self) -> subprocess.Popen[str]:
        """The command, started, once it has written its first file."""
        process = self.start()
        while not (self.out / FIRST[self.command]).exists():
            if process.poll() is not None:
                raise RuntimeError(f"it ended before it wrote {FIRST[self.command]}: {process.communicate()[0]}")
            time.sleep(0.005)
        return process

    def result(self) -> dict[str, str]:
        """What must not depend on faults: the networks, or the aligner and its barriers."""
        if self.command == "zoo":
            return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in self.out.glob("[sz]*")}
        metrics = json.loads((self.out / "metrics.json").read_text())
        barriers = [row["barrier"] for rows in metrics.values() for row in rows.values()]
        return {"barriers": str(barriers)}


Fault = Callable[[Place], tuple[str, bool, str]]
"""Does something to a command in its place; returns the command's words, whether they are right, and all its output."""


def last_line(output: str) -> str:
    return (output.strip().splitlines() or ["nothing"])[-1]


def is_message(code: int, output: str) -> bool:
    """It failed, and said so in words rather than in a traceback."""
    return code not in (0, -signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS) and "Traceback" not in output


def killed(place: Place) -> tuple[str, bool, str]:
    """In the middle of its work."""
    process = place.at_work()
    process.kill()
    output, _ = process.communicate()
    return "nothing", process.returncode == -signal.SIGKILL, output


def terminated(place: Place) -> tuple[str, bool, str]:
    process = place.at_work()
    process.terminate()
    output, _ = process.communicate()
    return last_line(output), process.returncode != 0 and "Traceback" not in output, output


def limited() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_FILES, SMALL_FILES))


def full_disk(place: Place) -> tuple[str, bool, str]:
    if place.command == "train":  # on networks that there are
        shutil.rmtree(place.out, ignore_errors=True)
    if not mounted(place.out, "size=24k"):
        code, output = place.run(limited)
        return last_line(output), is_message(code, output), output
    try:
        code, output = place.run()
    finally:
        subprocess.run(["umount", str(place.out)], check=True)
    return last_line(output), is_message(code, output), output


def read_only(place: Place) -> tuple[str, bool, str]:
    place.out.mkdir(exist_ok=True)
    if not mounted(place.out, "ro"):
        place.out.chmod(0o500)
    try:
        code, output = place.run()
    finally:
        subprocess.run(["umount", str(place.out)], check=False, stderr=subprocess.DEVNULL)
        place.out.chmod(0o700)
    return last_line(output), is_message(code, output), output


def read_only_cache(place: Place) -> tuple[str, bool, str]:
    cache = str(place.folder / "cache")
    locked = not subprocess.run(["mount", "--bind", cache, cache], check=False, stderr=subprocess.DEVNULL).returncode
    if locked:
        subprocess.run(["mount", "-o", "remount,ro,bind", cache], check=True)
    try:
        code, output = place.run()
    finally:
        if locked:
            subprocess.run(["umount", cache], check=True)
    return "nothing: complete networks are only read", code == 0 and locked, output


def mounted(folder: Path, options: str) -> bool:
    """Whether a file system in memory could be mounted on the folder."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def two_at_once(place: Place) -> tuple[str, bool, str]:
    first = place.at_work()
    first.send_signal(signal.SIGSTOP)
    try:
        code, output = place.run()
    finally:
        first.send_signal(signal.SIGCONT)
        first.communicate()
    return f"the second: {last_line(output)}", is_message(code, output) and first.returncode == 0, output


FAULTS: dict[str, Fault] = {
    "kill -9": killed,
    "SIGTERM": terminated,
    "full disk": full_disk,
    "read-only folder": read_only,
    "two in one folder": two_at_once,
    "read-only cache": read_only_cache,
}


def all_faults(commands: Sequence[str] = ("zoo", "train")) -> list[Row]:
    """Every fault with every command."""
    rows = []
    for command in commands:
        with tempfile.TemporaryDirectory(prefix="wsgraph-faults-") as name:
            whole = Place(command, Path(name) / "whole")
            whole.folder.mkdir()
            code, output = whole.run()
            if code:
                raise RuntimeError(f"align.{command} fails without any fault: {output}")
            for fault in FAULTS if command == "train" else list(FAULTS)[:-1]:  # only a training has a cache beside it
                rows.append(one_fault(command, fault, whole, Path(name) / fault.replace(" ", "-")))
                sys.stderr.write(f"{'good' if rows[-1].good else 'BAD'}: {' | '.join(rows[-1].cells)}\n")
    return rows


def one_fault(command: str, fault: str, whole: Place, folder: Path) -> Row:
    """A fault in a folder of its own, and the same command after it."""
    place = Place(command, folder)
    folder.mkdir()
    if command == "train":
        shutil.copytree(whole.folder / "cache", folder / "cache")
    said, right, output = FAULTS[fault](place)
    code, again = place.run()
    same = code == 0 and place.result() == whole.result()
    after = "the same command ends with the same result" if same else f"NOT the same: {last_line(again)}"
    said = said.replace(str(folder), "…").replace("|", "/")
    return Row(
        (f"`align.{command}`", fault, said if right else f"NOT RIGHT: {said}", after), right and same, output + again
    )
