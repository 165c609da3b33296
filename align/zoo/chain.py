"""Chains of layers for K networks at once, as a few large operations on tensors with a leading axis of networks.

This is what ``vmap`` would do, with less overhead and less memory: pointwise functions work in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .architectures import Sine

Forward = Callable[[dict[str, Tensor], Tensor], Tensor]


class _Linear(torch.autograd.Function):
    """x Wᵀ + b of ``[K, B, in]``, ``[K, out, in]`` and ``[K, out]``; the gradient of W is made in W's own layout."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.baddbmm(bias[:, None], x, weight.mT)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        (gradient,), (x, weight) = gradients, ctx.saved_tensors
        below = torch.bmm(gradient, weight) if ctx.needs_input_grad[0] else None
        return below, torch.bmm(gradient.mT, x), gradient.sum(1)


class _Sine(torch.autograd.Function):
    """sin(ω x); x is overwritten."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, frequency: float) -> Tensor:
        ctx.frequency, angle = frequency, x.mul_(frequency)
        ctx.save_for_backward(angle)
        return torch.sin(angle)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (angle,) = ctx.saved_tensors
        return torch.cos(angle).mul_(gradients[0]).mul_(ctx.frequency), None


def _follows(layer: nn.Module | None, following: nn.Module) -> bool:
    """Whether a chain goes on like this; pointwise functions overwrite what a Linear has made."""
    if type(following) is nn.Linear:
        return following.bias is not None
    if type(following) is nn.Flatten:
        return layer is None
    return type(following) in (nn.ReLU, Sine) and type(layer) is nn.Linear


def chain(model: nn.Module) -> Forward | None:
    """The forward pass for stacked parameters and inputs ``[K, B, ...]``; ``None`` if the model is no plain chain."""
    if type(model) is not nn.Sequential or not all(map(_follows, [None, *model], model)):
        return None
    layers = list(zip(model._modules, model, strict=True))  # named_children would leave out a layer that comes twice

    def forward(params: dict[str, Tensor], x: Tensor) -> Tensor:
        for name, layer in layers:
            if isinstance(layer, nn.Flatten):
                x = x.flatten(2)
            elif isinstance(layer, nn.Linear):
                x = _Linear.apply(x, params[f"{name}.weight"], params[f"{name}.bias"])  # type: ignore[no-untyped-call]
            elif isinstance(layer, Sine):
                x = _Sine.apply(x, layer.frequency)  # type: ignore[no-untyped-call]
            else:
                x = torch.relu_(x)
        return x

    return forward
