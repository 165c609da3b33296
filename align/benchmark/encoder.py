"""Which sizes the encoder should have: short trainings on digits, judged on held-out networks.

One aligner per variant learns from an MLP family and a CNN family in turn. Every row but ``default`` changes one thing.
"""

from __future__ import annotations

import time
from dataclasses import replace

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from wsgraph import EncoderConfig

from ..barrier import barrier
from ..deep_align import DeepAlign, DeepAlignConfig
from ..demo import digits
from ..trainer import TrainConfig, held_out_barrier, train_aligner
from ..zoo.architectures import mlp
from ..zoo.family import Family, build_family
from ..zoo.together import Recipe

VARIANTS: dict[str, dict[str, object]] = {
    "default": {},
    "1 sweep": {"sweeps": 1},
    "2 sweeps": {"sweeps": 2},
    "4 sweeps": {"sweeps": 4},
    "32 messages": {"messages": 32},
    "1 basis function": {"basis": 1},
    "4 basis functions": {"basis": 4},
}


def small_cnn() -> nn.Module:
    """Three convolutions and a Linear behind Flatten, for 8 × 8 images."""
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 16, 10),
    )  # fmt: skip


def families(train: int, test: int) -> list[Family]:
    """Digits MLPs (64-48-48-48-10) and digits CNNs."""
    data, held = digits()
    recipe = Recipe(epochs=12, batch=64, lr=3e-3)
    return [
        build_family("MLP", lambda: mlp((1, 8, 8), (48, 48, 48)), data, held, train, test, recipe),
        build_family("CNN", small_cnn, data, held, train, test, recipe, together=16),
    ]


def compare(names: list[str] | None, steps: int, seeds: int, train: int = 64, test: int = 24) -> None:
    """Print the held-out barrier of every variant, mean and standard error over seeds."""
    console = Console(width=120)
    zoo = families(train, test)
    table = Table(title=f"Held-out barrier after {steps} steps, {train} training networks per family, {seeds} seed(s)")
    for column in ("variant", "parameters", *(f.name for f in zoo), "seconds"):
        table.add_column(column, justify="left" if column == "variant" else "right")
    naive = [barrier(*f.test_pairs(24), data=f.held, points=11) for f in zoo]
    table.add_row("(not aligned)", "", *(f"{float(x):.3f}" for x in naive), "")
    for name, changes in VARIANTS.items():
        if names and name not in names:
            continue
        start, found = time.perf_counter(), []
        for seed in range(seeds):
            torch.manual_seed(seed)
            aligner = DeepAlign(DeepAlignConfig(encoder=replace(EncoderConfig(), **changes)))  # type: ignore[arg-type]
            train_aligner(aligner, zoo, TrainConfig(steps=steps, seed=seed))
            found.append([float(held_out_barrier(aligner, f, 24)) for f in zoo])
        values = torch.tensor(found)
        cells = [f"{m:.3f}" for m in values.mean(0).tolist()]
        if seeds > 1:
            cells = [f"{c} ± {e:.3f}" for c, e in zip(cells, (values.std(0) / seeds**0.5).tolist(), strict=True)]
        count = sum(p.numel() for p in aligner.parameters())
        table.add_row(name, f"{count:,}", *cells, f"{(time.perf_counter() - start) / seeds:.0f}")
        console.print(name, *cells)
    console.print(table)
