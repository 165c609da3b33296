"""Images with their channels last in memory: on a CPU, convolutions are up to a third faster with them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def suits_channels_last(model: nn.Module, x: Tensor) -> bool:
    """Whether the layout helps and is safe: with torch 2.13, strided 1 × 1 convolutions of it corrupt memory."""
    if x.dim() != 4 or x.device.type != "cpu":
        return False
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    return bool(convolutions) and all(m.stride == (1, 1) for m in convolutions)


def channels_last(model: nn.Module, x: Tensor) -> Tensor:
    """The inputs of ``model``, their channels last if that suits it."""
    return x.contiguous(memory_format=torch.channels_last) if suits_channels_last(model, x) else x
