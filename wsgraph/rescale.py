"""Positive per-neuron scalings, the second symmetry of ReLU networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, prod

import torch
from torch import Tensor

from .blocks import is_inner
from .spec import Axis, Spec
from .ties import replace_tied, untied


def random_factors(spec: Spec, low: float, high: float, generator: torch.Generator | None = None) -> list[Tensor]:
    """One factor per element of every scaling of ``spec``, log-uniform in [low, high]."""
    device = generator.device if generator is not None else torch.device("cpu")
    sizes = [spec.groups[s.group].size for s in spec.scalings]
    return [
        torch.exp(torch.empty(n, device=device, dtype=torch.float64).uniform_(log(low), log(high), generator=generator))
        for n in sizes
    ]


def rescale(
    tensors: Mapping[str, Tensor], spec: Spec, factors: Sequence[Tensor], *, inplace: bool = False
) -> dict[str, Tensor]:
    """Scale neuron i of each scaling's group by its factor: writers times cᵢ, readers times 1/cᵢ.

    Args:
        tensors: The network's state dict.
        factors: One positive vector per entry of ``spec.scalings``.
        inplace: Whether to write to the tensors themselves.
    """
    wholes: dict[str, Tensor] = {}  # the product of all factors of an entry, without its last dimensions
    for scaling, factor in zip(spec.scalings, factors, strict=True):
        for slots, values in ((scaling.up, factor.double()), (scaling.down, 1 / factor.double())):
            for name, dim in slots:
                along = _along(spec, spec.params[name].axes[dim], scaling.group, values.to(tensors[name]))
                along = along.view(-1, *(1,) * (tensors[name].dim() - dim - 1))
                wholes[name] = wholes[name] * along if name in wholes else along
    first = untied({name: tensors[name] for name in wholes})
    new = {name: t.mul_(wholes[name]) if inplace else t * wholes[name] for name, t in first.items()}
    return replace_tied(tensors, new)


def _along(spec: Spec, axis: Axis, group: str, values: Tensor) -> Tensor:
    """The factor of every element of a whole axis; 1 where ``group`` is not involved."""
    pieces = []
    for part in axis.parts:
        sizes = [spec.factor_size(f) for f in part]
        piece = values.new_ones(sizes)
        for k, factor in enumerate(part):
            if not isinstance(factor, int) and not is_inner(factor) and group in spec.lineage(factor):
                whole_runs = values.repeat_interleave(sizes[k] // len(values))
                piece = piece * whole_runs.view(-1, *(1,) * (len(sizes) - k - 1))
        pieces.append(piece.reshape(prod(sizes)))
    return torch.cat(pieces)
