"""Sums over all entries of two tensors, in float64.

Part by part: float64 copies of a whole embedding matrix would be larger than the rest of what an aligner needs.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

PART = 2**20


def inner(x: Tensor, y: Tensor) -> float:
    """⟨x, y⟩ of two tensors of one shape."""
    return sum(float(torch.dot(p, q)) for p, q in _parts(x, y))


def squared_distance(x: Tensor, y: Tensor) -> float:
    """‖x − y‖² of two tensors of one shape."""
    return sum(float((p - q).square().sum()) for p, q in _parts(x, y))


def _parts(x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    for p, q in zip(x.detach().flatten().split(PART), y.detach().flatten().split(PART), strict=True):
        yield p.double(), q.double()
