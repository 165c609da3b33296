"""One architecture in other widths: a network of one size brought to the size of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from .blocks import is_inner
from .spans import part_sizes, spans
from .spec import Axis, Spec

Partners = Mapping[str, Tensor]
"""Group → for each neuron of the target its partner in the source, −1 for none."""


def fitted(
    tensors: Mapping[str, Tensor], source: Spec, own: Mapping[str, Tensor], target: Spec, partners: Partners
) -> dict[str, Tensor]:
    """A network in the widths of another: the source's weights between matched neurons.

    Neurons of the target without a partner compute what they do there, and nobody listens: their weights to matched
    neurons are 0. So a narrow network, fitted to a wider one, computes the same function (where no norm is taken over
    the neurons of a layer); a wide one is cut.

    Args:
        tensors: State dict of the source.
        source: Its Spec.
        own: State dict of the target.
        target: Its Spec: the same layers, in other widths.
        partners: Of the target's neurons; groups that are not named stay as they are.

    Returns:
        A state dict with the target's shapes.
    """
    heard = {g for p in target.params.values() if p.reads is not None for g in p.axes[p.reads].groups}
    out = {}
    for name, param in target.params.items():
        tensor = tensors[name]
        index = [positions(axis, source, target, partners).to(tensor.device) for axis in param.axes]
        for dim, chosen in enumerate(index):
            tensor = tensor.index_select(dim, chosen.clamp_min(0))
        for dim, chosen in sorted(
            enumerate(index), key=lambda pair: pair[0] != param.reads
        ):  # what is read comes first
            missing = (chosen < 0).view(-1, *(1,) * (tensor.dim() - dim - 1))
            kept = dim != param.reads and heard.issuperset(param.axes[dim].groups)
            tensor = torch.where(missing, own[name].to(tensor) if kept else torch.zeros_like(tensor), tensor)
        out[name] = tensor if index else tensors[name].clone()
    return out


def positions(axis: Axis, source: Spec, target: Spec, partners: Partners) -> Tensor:
    """Flat index into the source's axis for every element of the target's, −1 where there is none."""
    pieces = []
    for part, (start, _) in zip(axis.parts, spans(part_sizes(source, axis)), strict=True):
        flat = torch.zeros((), dtype=torch.long)
        for factor in part:
            if is_inner(factor) and source.factor_size(factor) != target.factor_size(factor):
                raise ValueError(
                    f"'{factor}' stands inside runs (a convolution with groups) of {source.factor_size(factor)} in one "
                    f"network and {target.factor_size(factor)} in the other; only equal ones can be fitted"
                )
            whole = torch.arange(target.factor_size(factor))
            found = partners.get(factor, whole).cpu() if isinstance(factor, str) else whole
            there = flat[..., None] * source.factor_size(factor) + found
            flat = torch.where((flat[..., None] < 0) | (found < 0), -1, there).flatten()
        pieces.append(torch.where(flat < 0, -1, start + flat))
    return torch.cat(pieces)


def widened(spec: Spec, sizes: Mapping[str, int]) -> Spec:
    """The Spec with other sizes of some groups."""
    groups = [replace(g, size=sizes.get(g.name, g.size)) for g in spec.groups.values()]
    return Spec(groups, spec.params.values(), spec.scalings)


def placed(small: Spec, large: Spec) -> dict[str, Tensor]:
    """Partners of the neurons of a widened network: those that were there come first, in every run."""
    out: dict[str, Tensor] = {}
    for group in large.groups.values():
        size = small.groups[group.name].size
        if group.parent is None:
            index = torch.arange(group.size)
            out[group.name] = torch.where(index < size, index, -1)
        else:
            run = size // small.groups[group.parent].size
            inside = torch.arange(group.size // large.groups[group.parent].size)
            parent = out[group.parent][:, None]
            out[group.name] = torch.where((parent >= 0) & (inside < run), parent * run + inside, -1).flatten()
    return out
