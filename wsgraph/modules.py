"""Networks as named tensors: read a module's state without copying it, and build a module from other tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .shell import rebuilt
from .ties import map_tied

_PERIOD = 65_521
"""After how many elements noise repeats: a prime, so that it does not where channels do; drawing costs most of it."""


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """The state dict's tensors themselves (shared, not detached), tied entries under each of their names.

    They are read off the modules, because ``module.state_dict()`` calls hooks of the user.
    """
    out: dict[str, Tensor] = {}
    for path, sub in module.named_modules(remove_duplicate=False):
        kept = {k: t for k, t in sub._buffers.items() if k not in sub._non_persistent_buffers_set}
        found = {**sub._parameters, **kept}
        out |= {f"{path}.{name}" if path else name: t for name, t in found.items() if t is not None}
    return out


def with_tensors(module: nn.Module, tensors: Mapping[str, Tensor]) -> nn.Module:
    """A copy of ``module`` that holds ``tensors``; everything else is copied, ties and training mode are kept.

    Hooks are not copied, unless they are a part of the function (see :mod:`wsgraph.shell`).

    Args:
        module: The template; its own tensors are neither copied nor changed.
        tensors: State dict entries to hold. Missing ones are shared with the template.
    """
    held = tensors_of(module)
    new = {id(t): t for t in held.values()}
    for name, old in held.items():
        if name in tensors:
            value = tensors[name]
            if isinstance(old, nn.Parameter):
                value = nn.Parameter(value.detach(), requires_grad=old.requires_grad)
            new[id(old)] = value
    return rebuilt(module, new)


def double_copy(module: nn.Module, jitter: torch.Generator | None = None) -> nn.Module:
    """A float64 copy in eval mode; with ``jitter`` every value is made distinct, so that no two channels look alike.

    Freshly initialised norms (scale 1, shift 0, mean 0, variance 1) hide every mistake in permuting them.
    """

    noise = None if jitter is None else torch.rand(_PERIOD, generator=jitter, dtype=torch.float64)

    def convert(_name: str, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor.clone()
        if noise is None or not tensor.dim():
            return tensor.detach().to(torch.float64, copy=True)
        new = torch.empty(tensor.shape, dtype=torch.float64, device=tensor.device)
        for old, rows in zip(*(_rows(t, len(noise)) for t in (tensor.detach().contiguous(), new)), strict=True):
            near = noise[: rows.shape[1]].to(new.device)
            torch.mul(old, 0.75 + 0.5 * near, out=rows).add_(near.flip(0), alpha=0.05)
        return new

    return with_tensors(module, map_tied(tensors_of(module), convert)).double().eval()


def _rows(tensor: Tensor, length: int) -> list[Tensor]:
    """All elements as rows of one length, and the last ones as a shorter row: views, without copying."""
    flat = tensor.view(-1)
    whole = len(flat) // length * length
    return [part for part in (flat[:whole].view(-1, length), flat[None, whole:]) if part.numel()]
