"""Transfer: the bundled aligner where one thing about the networks changes, and nothing else.

The mixture that it learned from has at most 256 neurons a layer, five layers and images of 14 × 14; a column of
networks starts inside and goes on beyond.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..deep_align import DeepAlign
from ..zoo import Recipe, ZooConfig, build
from ..zoo.tables import TEACHER, table_shape
from .board import Board

TITLE = "Transfer of the bundled aligner"
NETWORKS, SEED = 8, 910
"""Networks of a cell, judged in disjoint pairs, and their seed: no family of the mixture has it."""


def _cell(data: str, shape: tuple[int, int, int], hidden: Sequence[int]) -> ZooConfig:
    """ReLU MLPs; the small digits are passed often."""
    return ZooConfig(
        name=f"transfer-{len(hidden)}x{hidden[0]}-{shape[-1]}",
        make="dense",
        args={"inputs": list(shape), "hidden": list(hidden)},
        data=data,
        shape=shape,
        recipe=Recipe(20, 64, 2e-3) if data == "digits" else Recipe(2, 128, 1e-3),
        together=NETWORKS,
        split=(0, 0, 1),
        seed=SEED,
    )


def _table(data: str) -> ZooConfig:
    inputs, outputs = table_shape(data)
    args: dict[str, Any] = {"inputs": inputs, "outputs": outputs, "hidden": [64, 64]}
    common: dict[str, Any] = {"together": NETWORKS, "split": (0, 0, 1), "seed": SEED}
    return ZooConfig("transfer-2x64", "dense", args, "table", data, recipe=Recipe(20, 64, 2e-3), **common)


CELLS: dict[str, dict[str, ZooConfig]] = {
    "width, digits": {
        f"64-{32 * k}-{32 * k}-10 (× {k})": _cell("digits", (1, 8, 8), [32 * k] * 2) for k in (1, 2, 4, 8)
    },
    "width, Fashion-MNIST": {
        f"196-{32 * k}-{32 * k}-10 (× {k})": _cell("fashion_mnist", (1, 14, 14), [32 * k] * 2) for k in (1, 2, 4, 8)
    },
    "depth": {f"{n} hidden layers of 48": _cell("fashion_mnist", (1, 14, 14), [48] * n) for n in (2, 4, 6, 8)},
    "resolution": {f"{n} × {n}": _cell("fashion_mnist", (1, n, n), [64] * 2) for n in (7, 14, 20, 28)},
    "data": {
        "digits": _cell("digits", (1, 8, 8), [64] * 2),
        "MNIST": _cell("mnist", (1, 14, 14), [64] * 2),
        "Fashion-MNIST": _cell("fashion_mnist", (1, 14, 14), [64] * 2),
        "random function of a table": _table(f"{TEACHER}{SEED}"),
    },
}
"""What changes → networks. Cells of one config are one zoo."""


def transfer(words: Sequence[str], output: Path) -> None:
    """Judge the bundled aligner cell by cell; the folder ``output`` gets tables, numbers and a picture per section."""
    chosen = {name: cells for name, cells in CELLS.items() if not words or any(w in name for w in words)}
    if not chosen:
        sys.exit(f"nothing that changes contains {' or '.join(words)}; choose among {', '.join(CELLS)}")
    board, aligner = Board(output, TITLE), DeepAlign()
    for section, cells in chosen.items():
        for name, config in cells.items():
            board.judge(section, name, build(config, NETWORKS), aligner)
    board.show()
