"""Networks as named tensors: read a module's state without copying it, and build a module from other tensors."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """The state dict's tensors themselves (shared, not detached), tied entries under each of their names."""
    return {k: v for k, v in module.state_dict(keep_vars=True).items() if isinstance(v, Tensor)}


def with_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> nn.Module:
    """A copy of ``module`` that holds ``tensors``; everything else is copied, ties and training mode are kept.

    Args:
        module: The template; its own tensors are neither copied nor changed.
        tensors: State dict entries to hold. Missing ones are shared with the template.
    """
    memo = {**held_results(module), **{id(t): t for t in [*module.parameters(), *module.buffers()]}}
    for name, old in tensors_of(module).items():
        if name in tensors:
            new = tensors[name]
            if isinstance(old, nn.Parameter):
                new = nn.Parameter(new.detach(), requires_grad=old.requires_grad)
            memo[id(old)] = new
    return copy.deepcopy(module, memo)


def held_results(module: nn.Module) -> dict[int, Any]:
    """Results of earlier calls that the module keeps as attributes: they cannot be copied with their gradient."""
    attributes = _pytree.tree_leaves([list(vars(sub).values()) for sub in module.modules()])
    return {id(t): t.detach() for t in attributes if isinstance(t, Tensor) and not t.is_leaf}


def shared_copy(module: nn.Module) -> nn.Module:
    """A copy in eval mode whose parameters are those of ``module``: hardly any memory, and the module stays as it is.

    Buffers are copied, because some modules update theirs whenever they are called.
    """
    buffers = {id(t): t.clone() for t in module.buffers()}
    memo = {**held_results(module), **{id(t): t for t in module.parameters()}, **buffers}
    return copy.deepcopy(module, memo).eval()


def double_copy(module: nn.Module, jitter: torch.Generator | None = None) -> nn.Module:
    """A float64 copy in eval mode; with ``jitter`` every value is made distinct, so that no two channels look alike.

    Freshly initialised norms (scale 1, shift 0, mean 0, variance 1) hide every mistake in permuting them.
    """

    def convert(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor.clone()
        new = tensor.detach().double().clone()
        if jitter is not None:
            noise = torch.rand(new.shape, generator=jitter, dtype=torch.float64).to(new.device)
            new = new * (0.75 + 0.5 * noise) + 0.05 * noise.flip(0) if new.dim() else new
        return new

    done: dict[int, Tensor] = {}
    named = {k: done.setdefault(id(v), convert(v)) for k, v in tensors_of(module).items()}
    return with_tensors(module, named).double().eval()
