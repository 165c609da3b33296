"""The permutation-invariant distance between networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..matching import match
from ..progress import progress
from ..running.networks import NetworkLike, read_state_dicts


def distance(a: NetworkLike, b: NetworkLike, method: str = "weight_matching", **options: Any) -> float:
    """min over permutations (as found by ``method``) of ‖a − P·b‖: zero exactly for permuted copies."""
    return match(a, b, method, **options).distance


def pairwise_distance(networks: Sequence[NetworkLike], method: str = "weight_matching", **options: Any) -> Tensor:
    """The distance between all pairs of a set of networks of one architecture.

    The smaller of both directions counts, so that the matrix is symmetric.

    Shapes:
        - **output:** ``[n, n]``, zero on the diagonal
    """
    networks = read_state_dicts(networks, options.get("example_input"), options.get("spec"))
    n = len(networks)
    out = torch.zeros(n, n)
    with progress("pairwise distances", n * (n - 1) // 2) as step:
        for i in range(n):
            for j in range(i):
                there = distance(networks[i], networks[j], method, **options)
                back = distance(networks[j], networks[i], method, **options)
                out[i, j] = out[j, i] = min(there, back)
                step()
    return out


def plane(distances: Tensor, dimensions: int = 2) -> Tensor:
    """Points whose distances are near the given ones, by classical multidimensional scaling.

    The directions in which the points differ most come first; neither they nor their signs mean anything by themselves.

    Args:
        distances: ``[n, n]``, as from :func:`pairwise_distance`.

    Shapes:
        - **output:** ``[n, dimensions]``
    """
    squares = distances.double().square()
    # Distances to the centre and between the points determine all inner products, hence the points.
    inner = -(squares - squares.mean(0) - squares.mean(1, keepdim=True) + squares.mean()) / 2
    sizes, directions = torch.linalg.eigh(inner)
    points = directions * sizes.clamp_min(0).sqrt()
    return points[:, -dimensions:].flip(1).to(distances.dtype)
