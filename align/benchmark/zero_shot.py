"""Zero-shot: the bundled aligner on networks of families that its training left out, beside the classic methods.

Networks are larger than any in the mixture that the aligner learned from, of another resolution, and judged in disjoint
pairs on samples that none of them learned from.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from wsgraph.files import replacing

from ..judging.barrier import Barrier
from ..judging.compare import with_error
from ..judging.evaluation import line_barrier
from ..matching import match
from ..plots import plot_line_panels
from ..progress import progress
from ..zoo import Recipe, Zoo, ZooConfig, build

NETWORKS = {"convolutional": 10, "recurrent": 10, "transformer": 10, "residual": 6}
"""Networks of a row by their builder, judged in disjoint pairs; 16 where they are trained in no time."""
SEED = 900
"""Of the networks: no family of the mixture has it."""


def _row(
    name: str, make: str, together: int = 16, epochs: int = 2, lr: float = 1e-3, side: int = 28, **args: Any
) -> ZooConfig:
    return ZooConfig(
        name=f"zero-shot-{name}",
        make=make,
        args={"inputs": [1, side, side], **args},
        data="fashion_mnist",
        shape=None if side == 28 else (1, side, side),
        recipe=Recipe(epochs, 128, lr),
        together=together,
        split=(0, 0, 1),
        seed=SEED,
    )


ROWS: dict[str, ZooConfig] = {
    "ReLU 784-128³-10": _row("relu", "dense", hidden=[128] * 3),
    "tanh 784-128³-10": _row("tanh", "dense", hidden=[128] * 3, activation="tanh"),
    "GELU, five hidden layers of 200": _row("gelu", "dense", hidden=[200] * 5, activation="gelu"),
    "wide 784-512-512-10": _row("wide", "dense", hidden=[512] * 2),
    "BatchNorm MLP": _row("batchnorm", "dense", 1, hidden=[128] * 3, norm="batch"),
    "LayerNorm + residual MLP": _row(
        "layernorm", "dense_residual", width=128, depth=3, inner=128, norm="layer", activation="gelu"
    ),
    "CNN 5×5 with BatchNorm": _row(
        "cnn", "convolutional", 1, 1, side=20, channels=[16, 16, 32], kernel=5, norm="batch"
    ),
    "ResNet with BatchNorm": _row("resnet", "residual", 1, 1, side=20, channels=[16, 32], norm="batch"),
    "LSTM": _row("lstm", "recurrent", 1, 2, 2e-3, width=64),
    "small ViT": _row("vit", "transformer", 1, 2, 2e-3, patch=7, width=48, depth=2, heads=4, inner=96),
}
"""What is judged: the networks of people, larger than anything in the mixture."""

METHODS: dict[str, tuple[str, str | None]] = {
    "not aligned": ("identity", None),
    "weight matching": ("weight_matching", None),
    "activation matching, 2,000 images": ("activation_matching", "inputs"),
    "activation matching, noise": ("activation_matching", "noise"),
    "deep align": ("deep_align", None),
    "deep align + weight matching": ("deep_align+weight_matching", None),
    "auto": ("auto", None),
    "auto, 2,000 labelled images": ("auto", "labelled"),
}
"""Label → name of the method and what it sees."""
FREE = ("weight matching", "activation matching, noise")
CLASSIC = (*FREE, "activation matching, 2,000 images")
"""Methods to be measured against: without data, and all."""
SEEN, JUDGED, POINTS = 2_000, 2_000, 11
"""Images that methods see, images that barriers are measured on, points on the line."""


def zero_shot(words: Sequence[str], output: Path) -> None:
    """Print the table, row by row, and write it with its numbers and pictures into ``output``."""
    chosen = {name: config for name, config in ROWS.items() if not words or any(w in name for w in words)}
    if not chosen:
        sys.exit(f"no row contains {' or '.join(words)}; the rows are {', '.join(ROWS)}")
    results = {}
    for name, config in chosen.items():
        zoo = build(config, NETWORKS.get(config.make, 16))
        results[name] = judge(zoo, name)
        write(results, output)
    Console().print(table(results))


def judge(zoo: Zoo, name: str) -> dict[str, Barrier]:
    """Barriers of every method between the networks of a zoo, in disjoint pairs."""
    numbers = list(zoo.records)
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    out = {}
    with progress(name, len(METHODS) * len(pairs)) as step:
        for label, (method, data) in METHODS.items():
            moved = []
            for i, j in pairs:
                moved.append(_moved(zoo.module(i), zoo.module(j), zoo, method, data))
                step(note=label)
            out[label] = line_barrier(zoo, pairs, moved, samples=JUDGED, points=POINTS)
    return out


def _moved(a: nn.Module, b: nn.Module, zoo: Zoo, method: str, data: str | None) -> nn.Module:
    x, y = (t[:SEEN] for t in zoo.task.samples("train"))
    given: dict[str | None, Any] = {None: None, "inputs": x, "labelled": (x, y), "noise": "noise"}
    return match(a, b, method, example_input=x[:2], data=given[data]).apply(b)


def ratio(row: Mapping[str, Barrier], label: str, others: Sequence[str]) -> float:
    """Mean barrier of a method relative to the best of ``others``."""
    best = min(float(row[other]) for other in others)
    return float(row[label]) / best if best else torch.inf


def cells(row: Mapping[str, Barrier]) -> list[str]:
    """The numbers of a row: every method's barrier, and two ratios of the forward pass."""
    found = []
    for result in row.values():
        error = float(result.barrier.std() / len(result.barrier) ** 0.5) if len(result.barrier) > 1 else 0.0
        found.append(with_error(float(result), error))
    return [*found, *(f"{ratio(row, 'deep align', others):.2f}" for others in (FREE, CLASSIC))]


COLUMNS = ("networks", "pairs", *METHODS, "deep align / best without data", "deep align / best classic")


def table(results: Mapping[str, Mapping[str, Barrier]]) -> Table:
    """For the terminal."""
    out = Table(title="Barriers between networks of families that the aligner never saw")
    for column in COLUMNS:
        out.add_column(column, justify="left" if column == "networks" else "right")
    for name, row in results.items():
        out.add_row(name, str(len(row["deep align"].loss)), *cells(row))
    return out


def write(results: Mapping[str, Mapping[str, Barrier]], folder: Path) -> None:
    """``table.md``, ``results.json`` (barriers of all pairs) and a picture of every row's lines."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [[name, str(len(row["deep align"].loss)), *cells(row)] for name, row in results.items()]
    lines = [COLUMNS, ["---", *["---:"] * (len(COLUMNS) - 1)], *rows]
    texts = {
        "table.md": "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n",
        "results.json": json.dumps(
            {name: {m: x.barrier.tolist() for m, x in row.items()} for name, row in results.items()}, indent=1
        ),
    }
    for name, text in texts.items():
        with replacing(folder / name) as temporary:
            temporary.write_text(text)
    shown = {name: {m: x for m, x in row.items() if m != "not aligned"} for name, row in results.items()}
    plot_line_panels(shown, folder / "lines.png", "Loss between networks of unseen families")
