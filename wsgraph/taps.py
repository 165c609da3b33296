"""A small fixed basis over the positions inside an edge (kernel taps, pixels after Flatten).

An edge between two neurons carries one number (Linear) or a grid of them (a 3 × 3 kernel, a 7 × 7 map after Flatten).
Projected on the first few cosine functions of the grid, every edge has the same few coefficients, whatever the grid:
nothing is padded to a maximum, and one set of parameters serves every kernel size.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod

import torch
from torch import Tensor

BASIS_SIZE = 9


@lru_cache(maxsize=1024)
@torch.inference_mode(False)  # the table outlives the caller's mode
def _basis(shape: tuple[int, ...], size: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    frequencies = sorted(product(*(range(min(n, size)) for n in shape)), key=lambda f: (max(f, default=0), sum(f), f))
    basis = torch.zeros(prod(shape), size, dtype=torch.float64, device="cpu")
    for k, frequency in enumerate(frequencies[:size]):
        wave = torch.ones((), dtype=torch.float64, device="cpu")
        for f, n in zip(frequency, shape, strict=True):
            grid = torch.cos(torch.pi * f * (torch.arange(n, dtype=torch.float64, device="cpu") + 0.5) / n)
            wave = wave[..., None] * grid / grid.norm()
        basis[:, k] = wave.reshape(-1)
    return basis.to(device, dtype)


def tap_basis(shape: tuple[int, ...], size: int = BASIS_SIZE, like: Tensor | None = None) -> Tensor:
    r"""Orthonormal cosine basis on a grid, low frequencies first.

    .. math:: B_{t k} = \prod_d c_{k_d} \cos\left(\pi k_d (t_d + 1/2) / n_d\right)

    For 3 × 3 kernels nine functions are complete, so the coefficients lose nothing; larger grids are low-passed.

    Args:
        shape: The grid, ``()`` for a plain matrix.
        size: Number of functions; those beyond the grid's own are zero.
        like: Tensor whose device and dtype to use.

    Shapes:
        - **output:** ``[prod(shape), size]``
    """
    if like is None:
        return _basis(tuple(shape), size, torch.device("cpu"), torch.float64)
    return _basis(tuple(shape), size, like.device, like.dtype)
