"""Which sizes the encoder should have, and how it should be trained: short trainings on digits.

One aligner per variant learns from a zoo of MLPs (the encoder's variants also from a zoo of CNNs, in turn) and is
judged on held-out networks. Every variant but ``default`` changes one thing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from rich.console import Console

from wsgraph import EncoderConfig

from ..deep_align import DeepAlign, DeepAlignConfig
from ..judging.evaluation import aligned, line_barrier, pairs_of
from ..learning.settings import TrainConfig
from ..learning.trainer import train_aligner
from ..zoo import Recipe, Zoo, ZooConfig, build
from .changes import VARIANTS
from .sheet import Sheet


def zoos(kind: str, count: int) -> list[Zoo]:
    """Digits MLPs (64-48-48-48-10), and the paper's CNN at a quarter of its width on digits of 16 × 16."""
    mlp = ZooConfig("mlp48", "mlp", {"inputs": [1, 8, 8], "hidden": [48, 48, 48]}, recipe=Recipe(12, 64, 3e-3))
    image, recipe = (1, 16, 16), Recipe(8, 64, 3e-3)
    cnn = ZooConfig("cnn16", "cnn", {"inputs": [*image], "width": 0.25}, shape=image, recipe=recipe, together=1)
    return [build(config, count) for config in ((mlp, cnn) if kind == "encoder" else (mlp,))]


def compare(kind: str, names: list[str], steps: int, seeds: int, count: int = 96, pairs: int = 24) -> None:
    """Print the held-out barrier of the ``encoder``'s or the ``training``'s variants, mean and s.e. over seeds."""
    variants = VARIANTS[kind]
    if unknown := [name for name in names if name not in variants]:
        sys.exit(f"no variants {unknown}; choose among {list(variants)}")
    console, both = Console(width=120), zoos(kind, count)
    chosen = [pairs_of(zoo, "test", pairs) for zoo in both]
    learned = len(both[0].members("train"))
    title = f"Held-out barrier after {steps} steps, {learned} training networks each, {seeds} seed(s)"
    sheet = Sheet(kind, title, ("variant", "parameters", *(zoo.config.name for zoo in both), "seconds"))
    naive = [line_barrier(z, p, [z.module(j) for _, j in p], points=11) for z, p in zip(both, chosen, strict=True)]
    sheet.add("(not aligned)", "", *(f"{float(x):.3f}" for x in naive), "")
    for name in names or variants:
        start, found = time.perf_counter(), []
        for seed in range(seeds):
            aligner = _train(kind, variants[name], both, steps, seed)
            judged = zip(both, chosen, strict=True)
            found.append([float(line_barrier(z, p, aligned(aligner, z, p), points=11)) for z, p in judged])
        values = torch.tensor(found)
        cells = [f"{m:.3f}" for m in values.mean(0).tolist()]
        if seeds > 1:
            cells = [f"{c} ± {e:.3f}" for c, e in zip(cells, (values.std(0) / seeds**0.5).tolist(), strict=True)]
        weights = sum(p.numel() for p in aligner.parameters())
        sheet.add(name, f"{weights:,}", *cells, f"{(time.perf_counter() - start) / seeds:.0f}")
        console.print(name, *cells)
    sheet.close()


def _train(kind: str, changes: Mapping[str, Any], both: list[Zoo], steps: int, seed: int) -> DeepAlign:
    torch.manual_seed(seed)
    encoder = replace(EncoderConfig(), **(changes if kind == "encoder" else {}))
    config = TrainConfig(steps=steps, seed=seed, **(changes if kind == "training" else {}))
    return train_aligner(DeepAlign(DeepAlignConfig(encoder=encoder)), both, config)
