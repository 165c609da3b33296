"""Zero-shot: the bundled aligner on networks of families that its training left out, beside the classic methods.

Networks are larger than any in the mixture that the aligner learned from, of another resolution, and judged in disjoint
pairs on samples that none of them learned from.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..deep_align import DeepAlign
from ..zoo import Recipe, ZooConfig, build
from .board import Board

TITLE, SECTION = "Barriers between networks that the aligner never saw", "unseen families"
NETWORKS = {"convolutional": 10, "recurrent": 10, "transformer": 20, "residual": 6}
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


def zero_shot(words: Sequence[str], output: Path) -> None:
    """Judge the bundled aligner row by row; the folder ``output`` gets the table, its numbers and pictures."""
    chosen = {name: config for name, config in ROWS.items() if not words or any(w in name for w in words)}
    if not chosen:
        sys.exit(f"no row contains {' or '.join(words)}; the rows are {', '.join(ROWS)}")
    board, aligner = Board(output, TITLE), DeepAlign()
    for name, config in chosen.items():
        board.judge(SECTION, name, build(config, NETWORKS.get(config.make, 16)), aligner)
    board.show()
