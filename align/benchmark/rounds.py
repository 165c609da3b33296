"""What federations came to, kept in a folder run by run: a command that was interrupted goes on where it stopped."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rich.console import Console
from rich.table import Table

from wsgraph.files import replacing

from ..plots import plot_curves

RESULTS, TABLE = "results.json", "table.md"
GOALS = (0.5, 0.7, 0.8)
"""Accuracies whose first rounds are told."""
COLUMNS = (
    *("method", "seeds", "after 1 round", "after 10", "at the end"),
    *(f"rounds to {goal:.0%}" for goal in GOALS),
    *("neurons moved", "seconds a round"),
)
Key = tuple[str, str, str, int]
"""Data set, setting, method and seed."""


@dataclass(frozen=True)
class Run:
    """A federation.

    Attributes:
        accuracy: Of the global network, before the first round and after each.
        moved: The share of neurons that were moved in each round.
        seconds: That the server took in each round.
    """

    accuracy: list[float] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def reached(self, goal: float) -> int | None:
        """The first round at whose end the accuracy is reached; ``None`` where it never is."""
        return next((turn for turn, value in enumerate(self.accuracy) if value >= goal), None)


class Runs:
    """Runs by key.

    Args:
        folder: Where they are kept; what is there already is read.
        methods: In the order in which they are shown.
        seeds: How many are shown; what has more would not compare with what has fewer.
    """

    def __init__(self, folder: Path, methods: Sequence[str], seeds: int) -> None:
        self.folder, self.methods, self.seeds = folder, methods, seeds
        path = folder / RESULTS
        self.stored: list[dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else []

    def has(self, key: Key, of: dict[str, Any]) -> bool:
        """Whether there is a run with this key, of the same protocol and aligner."""
        return any(entry["key"] == list(key) and entry["of"] == of for entry in self.stored)

    def add(self, key: Key, of: dict[str, Any], run: Run) -> None:
        """Keep a run, in place of an older one with its key."""
        others = [entry for entry in self.stored if entry["key"] != list(key)]
        self.stored = [*others, {"key": list(key), "of": of, "commit": _commit(), **asdict(run)}]
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self.folder / RESULTS) as temporary:
            temporary.write_text(json.dumps(self.stored))

    def sections(self) -> dict[tuple[str, str], dict[str, list[Run]]]:
        """(Data set, setting) → method → its runs."""
        out: dict[tuple[str, str], dict[str, list[Run]]] = {}
        for entry in sorted(self.stored, key=lambda entry: self.methods.index(entry["key"][2])):
            data, setting, method, seed = entry["key"]
            if seed < self.seeds:
                run = Run(entry["accuracy"], entry["moved"], entry["seconds"])
                out.setdefault((data, setting), {}).setdefault(method, []).append(run)
        return out

    def show(self) -> None:
        """Print all tables, and write them and the curves into the folder."""
        lines = [f"Commits {', '.join(sorted({entry['commit'] for entry in self.stored}))}.", ""]
        for (data, setting), methods in self.sections().items():
            table = Table(title=f"{data}, {setting}: accuracy of the global network in %, mean over seeds")
            lines += [f"### {table.title}", "", _row(COLUMNS), _row(["---", *["---:"] * (len(COLUMNS) - 1)])]
            for column in COLUMNS:
                table.add_column(column, justify="left" if column == "method" else "right")
            for method, runs in methods.items():
                table.add_row(method, *cells(runs))
                lines.append(_row([method, *cells(runs)]))
            lines.append("")
            Console(width=160).print(table)
            if len(next(iter(methods.values()))[0].accuracy) > 2:
                self._draw(data, setting, methods)
        with replacing(self.folder / TABLE) as temporary:
            temporary.write_text("\n".join(lines))

    def _draw(self, data: str, setting: str, methods: dict[str, list[Run]]) -> None:
        curves = {}
        for method, runs in methods.items():
            mean = [fmean(values) for values in zip(*(run.accuracy for run in runs), strict=True)]
            curves[method] = (list(range(len(mean))), mean)
        path = self.folder / f"{data}-{setting.replace(' ', '-')}.png"
        plot_curves(curves, path, "round", "accuracy of the global network", f"{data}, {setting}")


def cells(runs: list[Run]) -> list[str]:
    """The numbers of a method: accuracies, the round of the goal, neurons moved, and the server's seconds."""
    after = [[run.accuracy[min(turn, len(run.accuracy) - 1)] for run in runs] for turn in (1, 10, len(runs[0].moved))]
    accuracies = [_with_deviation(values) for values in after]
    moved, seconds = (fmean(fmean(getattr(run, name)) for run in runs) for name in ("moved", "seconds"))
    return [str(len(runs)), *accuracies, *(_rounds(runs, goal) for goal in GOALS), f"{moved:.1%}", f"{seconds:.3f}"]


def _rounds(runs: list[Run], goal: float) -> str:
    found = [turn for run in runs if (turn := run.reached(goal)) is not None]
    return f"{fmean(found):.1f}" if len(found) == len(runs) else "not always"


def _with_deviation(values: list[float]) -> str:
    mean = f"{100 * fmean(values):.1f}"
    return f"{mean} ± {100 * stdev(values):.1f}" if len(values) > 1 else mean


def _row(values: Any) -> str:
    return f"| {' | '.join(values)} |"


def _commit() -> str:
    """Of the checkout that this file is in, if it is in one."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
