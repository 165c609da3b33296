"""Does a process that aligns ten thousand pairs grow?"""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch import nn

from align import match

METHODS = ("deep_align", "weight_matching", "activation_matching")
OPTIONS = {"activation_matching": {"data": "noise", "samples": 64}}
WIDTHS = (8, 12, 16, 20)


def resident() -> float:
    """Megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def network(width: int, seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))


def soak(count: int, warm: int) -> tuple[float, float, float]:
    """Align ``count`` new pairs of networks; returns megabytes after ``warm`` of them and at the end, and seconds."""
    before, start = 0.0, time.monotonic()
    for k in range(count):
        if k == warm:
            before = resident()
        width = WIDTHS[k % len(WIDTHS)]
        a, b = (network(width, 2 * k + i) for i in (0, 1))
        match(a, b, METHODS[k % len(METHODS)], seed=0, **OPTIONS.get(METHODS[k % len(METHODS)], {})).apply(b)
    return before, resident(), time.monotonic() - start
