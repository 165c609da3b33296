"""How long a trace takes, beside another version of this package: both alternate, each in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from ..progress import progress

NETWORKS = ("ResNet-50", "VGG16-BN", "DenseNet-121", "MobileNetV2", "U-Net", "BertModel", "GPT2LMHeadModel")
_CHILD = """
import sys, time, torch
torch.set_num_threads(1)
from align.benchmark.models import CASES
from wsgraph import trace, tracing
torch.manual_seed(0)
model, example = next(case for name, case in CASES.items() if sys.argv[1] in name)(1.0)
seconds = []
for _ in range(4):
    tracing._CACHE.clear()
    start = time.process_time()
    trace(model.eval(), example)
    seconds.append(time.process_time() - start)
print(seconds[0], min(seconds[1:]))
"""
"""Traces one network four times; CPU seconds of the first trace of a process and the shortest of the others."""
HERE = Path(__file__).resolve().parents[2]


def compare(other: Path, names: list[str], repeats: int) -> None:
    """Print a table of the CPU seconds of a trace with the package in folder ``other`` and with this one."""
    if not (other / "wsgraph").is_dir():
        raise SystemExit(f"{other} has no folder wsgraph: pass a checkout of another version (git worktree add)")
    console = Console(width=200)
    columns = ("model", "first, before", "first, now", "later, before", "later, now", "ratio")
    console.print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", markup=False)
    for name in [n for n in NETWORKS if not names or any(word.lower() in n.lower() for word in names)]:
        best: dict[Path, list[float]] = {other: [], HERE: []}
        with progress(f"tracing {name}", repeats) as step:
            for _ in range(repeats):
                for folder, least in best.items():
                    found = _measure(folder, name)
                    least[:] = map(min, least or found, found)
                step()
        (first, later), (first_now, later_now) = best.values()
        cells = [f"{seconds:.2f} s" for seconds in (first, first_now, later, later_now)]
        console.print(f"| {name} | {' | '.join(cells)} | {later_now / later:.2f} |")


def _measure(folder: Path, name: str) -> list[float]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", _CHILD, name]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{folder} cannot trace {name}:\n{done.stderr[-2000:]}")
    return [float(text) for text in done.stdout.split()[-2:]]
