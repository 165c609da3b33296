"""The main job on the embedded digits: train two networks, align them with every method, compare, draw.

Run it with ``make demo``, or ``python -m align.demo --help``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from .plots import add_output, plot_lines
from .progress import progress

if TYPE_CHECKING:  # torch, and what brings it, is imported by the functions: a mere --help does not need it
    from torch import nn

    from .data.dataset import Split
    from .judging.barrier import Barrier

METHODS: dict[str, dict[str, Any]] = {
    "identity": {},
    "weight_matching": {},
    "covariance_matching": {},
    "activation_matching": {},
    "ste": {"iterations": 100},
    "sinkhorn": {"iterations": 300},
    "weight_matching+sinkhorn": {"iterations": 100},
    "deep_align": {},
    "deep_align+weight_matching": {},
    "deep_align+sinkhorn": {"iterations": 100},
}
"""What the demo runs, with fewer iterations than the defaults where it is the optimiser that takes the time."""

LABELS = {"identity": "not aligned"}
TITLE = "Two digits MLPs (64-64-64-10), different seeds, held-out images"
COLUMNS = ("method", "loss barrier", "average's accuracy", "seconds")


def digits() -> tuple[Split, Split]:
    """The embedded 8 × 8 digits, scaled to [-1, 1]: images to learn from, and images to be judged on."""
    from .data import load

    data = load("digits")
    return data.train, data.test


def network(seed: int) -> nn.Module:
    """An untrained 64-64-64-10 MLP."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
        )


def train(model: nn.Module, data: Split, seed: int, epochs: int = 20) -> nn.Module:
    """Adam on the cross-entropy."""
    import torch
    from torch.nn import functional as F

    x, y = data
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    with progress("training", epochs) as step:
        for _ in range(epochs):
            for batch in torch.randperm(len(x), generator=generator).split(64):
                optimiser.zero_grad()
                F.cross_entropy(model(x[batch]), y[batch]).backward()
                optimiser.step()
            step()
    return model.eval()


@dataclass(frozen=True)
class Row:
    """How well a method did."""

    method: str
    curve: Barrier
    accuracy: float
    seconds: float

    @property
    def name(self) -> str:
        """What people call it."""
        return LABELS.get(self.method, self.method)

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Those of :data:`COLUMNS`."""
        return self.name, f"{float(self.curve):.3f}", f"{self.accuracy:.1%}", f"{self.seconds:.2f}"


def compare(seed: int) -> Iterator[Row]:
    """Two networks, aligned with every method and judged on held-out images, one row after the other."""
    from . import barrier, match, merge
    from .methods.registry import takes

    held, test = digits()
    a, b = (train(network(2 * seed + k), held, seed=k) for k in (1, 2))
    for method, options in METHODS.items():
        data = held if takes(method, "data") else None
        alignment = match(a, b, method, data=data, seed=seed, **options)
        aligned = alignment.apply(b)
        accuracy = (merge(a, aligned)(test[0]).argmax(1) == test[1]).float().mean()
        yield Row(method, barrier(a, aligned, data=test), float(accuracy), alignment.elapsed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_output(parser, __file__)
    parser.add_argument("--seed", type=int, default=0, help="of networks and methods")
    args = parser.parse_args()

    import torch

    torch.set_num_threads(1)  # these matrices are tiny: threads that wait for a busy core cost ten times what they save
    start = time.perf_counter()
    rows = list(compare(args.seed))
    table = Table(title=TITLE)
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=column == "method")
    for row in rows:
        table.add_row(*row.cells)
    Console().print(table)
    curves = {row.name.replace("_", " "): row.curve for row in rows if "+" not in row.method}
    plot_lines(curves, args.output, "Digits: loss between two networks")
    print(f"picture: {args.output}   ({time.perf_counter() - start:.0f} s in all)")


if __name__ == "__main__":
    main()
