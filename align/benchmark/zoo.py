"""How much faster networks are trained at once than one after another.

Same data, batches, optimiser and number of steps; one thread. The three ways take turns, so that a busy moment of the
machine meets all of them, and the median counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..progress import progress
from ..zoo.architectures import inr, mlp
from ..zoo.memory import keep_freed_memory
from ..zoo.together import Recipe, train_alone, train_together
from .sheet import Sheet

STEPS = 48
"""Optimiser steps of every network; an epoch has eight, or one with full batches."""
ALONE = 4
"""Networks trained one after another."""
WORKERS = 2


@dataclass(frozen=True)
class Case:
    """An architecture and how it is trained.

    Args:
        widths: Of all layers.
        batch: Samples per step.
        together: Networks trained at once.
        sine: Sine representations with targets of their own and full batches, instead of classifiers.
    """

    widths: tuple[int, ...]
    batch: int
    together: int
    sine: bool = False

    def network(self) -> nn.Module:
        if self.sine:
            return inr(self.widths[0], self.widths[-1], self.widths[1], len(self.widths) - 1)
        return mlp(self.widths[:1], self.widths[1:-1], self.widths[-1])

    def data(self) -> tuple[Tensor, Tensor]:
        """Inputs, and targets: one set, or one per network."""
        if self.sine:
            x = torch.linspace(-1, 1, self.batch)[:, None]
            return x, torch.stack([torch.sin(math.pi * (0.5 + 0.1 * k) * x) for k in range(self.together)])
        count = 8 * self.batch
        return torch.randn(count, self.widths[0]), torch.randint(self.widths[-1], (count,))

    def recipe(self) -> Recipe:
        return Recipe(STEPS if self.sine else STEPS // 8, self.batch)

    def loss(self) -> Callable[[Tensor, Tensor], Tensor]:
        return F.mse_loss if self.sine else F.cross_entropy


CASES = {
    "MLP 64-32-32-10 (digits)": Case((64, 32, 32, 10), 64, 64),
    "MLP 64-64-64-64-10 (digits)": Case((64, 64, 64, 64, 10), 64, 64),
    "sine INR 1-32-32-1": Case((1, 32, 32, 1), 256, 64, sine=True),
    "MLP 784-128-128-128-10": Case((784, 128, 128, 128, 10), 128, 16),
}


def one_by_one(case: Case) -> float:
    """Seconds per network, one after another."""
    x, y = case.data()
    models, recipe, loss = [case.network() for _ in range(ALONE)], case.recipe(), case.loss()
    start = time.perf_counter()
    for seed, model in enumerate(models):
        train_alone(model, seed, x, y[seed] if case.sine else y, recipe, loss)
    return (time.perf_counter() - start) / ALONE


def at_once(case: Case) -> float:
    """Seconds per network, all together."""
    x, y = case.data()
    models = [case.network() for _ in range(case.together)]
    start = time.perf_counter()
    train_together(models, range(case.together), x, y, case.recipe(), case.loss(), own=case.sine)
    return (time.perf_counter() - start) / case.together


def in_workers(pool: ProcessPoolExecutor, case: Case) -> float:
    """Seconds per network, as many together in each of several processes, all at the same time."""
    start = time.perf_counter()
    list(pool.map(at_once, [case] * WORKERS))
    return (time.perf_counter() - start) / (WORKERS * case.together)


def _start_worker() -> None:
    torch.set_num_threads(1)
    keep_freed_memory()


def compare(names: Sequence[str], repeats: int) -> None:
    """Print the table."""
    _start_worker()
    chosen = {k: c for k, c in CASES.items() if not names or any(n.lower() in k.lower() for n in names)}
    columns = ("network", "one by one", "networks", "at once", "ratio", f"{WORKERS} processes", "ratio")
    sheet = Sheet("zoo", "Training: seconds per network and 1,000 steps, one thread per process", columns)
    pool = ProcessPoolExecutor(WORKERS, get_context("spawn"), _start_worker)
    with pool, progress("training networks", len(chosen) * (repeats + 1)) as step:
        for name, case in chosen.items():
            rounds = []
            for _ in range(repeats + 1):
                rounds.append((one_by_one(case), at_once(case), in_workers(pool, case)))
                step(note=name)
            rounds = rounds[1:]  # the first is to warm up
            alone, together, workers = (1000 / STEPS * median(taken) for taken in zip(*rounds, strict=True))
            ratios = [median(r[0] / r[k] for r in rounds) for k in (1, 2)]
            cells = (f"{alone:.3f}", str(case.together), f"{together:.3f}", f"{ratios[0]:.1f}")
            sheet.add(name, *cells, f"{workers:.3f}", f"{ratios[1]:.1f}")
    sheet.close()
