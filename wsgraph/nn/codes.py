"""What a pinned node is, in numbers: its place on the grid for inputs, its index for outputs."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import torch
from torch import Tensor

WAVES, INDEX_WAVES, SPATIAL = 8, 8, 3
CODE_SIZE = SPATIAL * WAVES + 2 * INDEX_WAVES


@lru_cache(maxsize=256)
@torch.inference_mode(False)  # the table outlives the caller's mode
def _codes(shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    spatial = shape[-SPATIAL:] if len(shape) > SPATIAL else shape[1:]
    index = torch.arange(prod(shape), dtype=torch.float64, device="cpu")
    waves = torch.arange(1, WAVES + 1, device="cpu")
    codes = torch.zeros(len(index), CODE_SIZE, dtype=torch.float64, device="cpu")
    stride = 1
    for d, n in enumerate(reversed(spatial)):
        x = (torch.div(index, stride, rounding_mode="floor") % n + 0.5) / n
        codes[:, d * WAVES : (d + 1) * WAVES] = torch.cos(torch.pi * x[:, None] * waves)
        stride *= n
    channel = torch.div(index, stride, rounding_mode="floor")
    angle = channel[:, None] * torch.logspace(0, -3, INDEX_WAVES, dtype=torch.float64, device="cpu")
    codes[:, SPATIAL * WAVES :] = torch.cat([angle.sin(), angle.cos()], dim=1)
    return codes.to(device, dtype)


def grid_codes(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Code of every element of a grid: cosines of its relative position, sines of its channel (or plain index).

    A pixel keeps its code when the resolution changes, so one encoder serves every input size.

    Shapes:
        - **output:** ``[prod(shape), CODE_SIZE]``
    """
    return _codes(tuple(shape), like.device, like.dtype)
