"""Images with their channels last in memory: on a CPU, convolutions are up to a third faster with them."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from .inputs import Inputs, X


def suits_channels_last(model: nn.Module, x: Inputs) -> bool:
    """Whether the layout helps and is safe: with torch 2.13, strided 1 × 1 convolutions of it corrupt memory."""
    if not isinstance(x, Tensor) or x.dim() != 4 or x.device.type != "cpu":
        return False
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    return bool(convolutions) and all(m.stride == (1, 1) for m in convolutions)


def channels_last(model: nn.Module, x: X) -> X:
    """The inputs of ``model``, their channels last if that suits it."""
    if not suits_channels_last(model, x):
        return x
    return cast(X, cast(Tensor, x).contiguous(memory_format=torch.channels_last))
