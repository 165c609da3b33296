"""Networks as named tensors: read a module's state without copying it, and build a module from other tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .shell import rebuilt
from .ties import map_tied

_PERIOD = 7_919
"""After how many elements noise repeats: a prime, so that it does not where channels do; it must fit into a cache."""


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
        new = tensor.detach().to(torch.float64, copy=True, memory_format=torch.contiguous_format)
        if noise is not None and tensor.dim():
            _disturb(new, noise.to(new.device))
        return new

    return with_tensors(module, map_tied(tensors_of(module), convert)).double().eval()


def _disturb(tensor: Tensor, noise: Tensor) -> None:
    """Scale and shift all elements of a tensor, in place, by noise that repeats."""
    scale, shift = 0.75 + 0.5 * noise, 0.05 * noise.flip(0)
    flat = tensor.view(-1)
    whole = len(flat) // len(noise) * len(noise)
    for rows in (flat[:whole].view(-1, len(noise)), flat[None, whole:]):
        width = rows.shape[1]
        torch.addcmul(shift[:width], rows, scale[:width], out=rows)
