"""From tensors to what a sweep multiplies with: edges per block, features of one-axis parameters, scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from ..blocks import Block
from ..network import NODE_ROLES, Network, stack_of
from ..spec import Spec
from ..taps import tap_basis
from .message import DenseEdges, Edges, OwnEdges, RunEdges
from .plan import Step, plan_of


@dataclass(frozen=True)
class PreparedStep:
    """One :class:`~wsgraph.nn.plan.Step` with its numbers.

    Args:
        step: The block and its neighbours.
        edges: Its weights.
        scale: ``[..., 1, 1]``, the typical size of a message of unit inputs: √fan-in · rms(W).
        written: ``[..., target, roles]`` features of the one-axis parameters on what the block writes, or ``None``.
        read: ``[..., source, roles]``, the same for what it reads.
        gain_written: ``[..., target, 1]``, what a norm multiplies the written values with, or ``None``.
        gain_read: ``[..., source, 1]``, the same for what is read.
    """

    step: Step
    edges: Edges
    scale: Tensor
    written: Tensor | None
    read: Tensor | None
    gain_written: Tensor | None
    gain_read: Tensor | None


@torch.compiler.disable  # type: ignore[untyped-decorator] # looks up cached tables and slices views: nothing to compile
def prepare(spec: Spec, networks: Sequence[Network], basis: int, dtype: torch.dtype) -> list[PreparedStep]:
    """Numbers of all steps for networks of one architecture, stacked on a leading axis (none for a single network)."""
    tensors = {name: stack_of(networks, name) for name in networks[0].tensors}
    return [_prepare_step(spec, step, tensors, networks, basis, dtype) for step in plan_of(spec).steps]


def _prepare_step(
    spec: Spec,
    step: Step,
    tensors: Mapping[str, Tensor],
    networks: Sequence[Network],
    basis: int,
    dtype: torch.dtype,
) -> PreparedStep:
    block = step.block
    taps = block.view(tensors[block.param]).to(dtype)
    functions = tap_basis(block.taps, basis, taps)
    fan_in = prod(block.taps) * (spec.groups[block.source].size // block.runs if block.source is not None else 1)
    dims = (-2, -1) if block.source is None else (-3, -2, -1) if block.runs == 1 else (-4, -3, -2, -1)
    count = prod(taps.shape[d] for d in dims)
    scale = torch.linalg.vector_norm(taps, dim=dims).clamp_min(1e-12) * (fan_in / count) ** 0.5
    support = networks[0].support
    if block.source is None:
        edges: Edges = OwnEdges(taps, functions)
    elif block.runs > 1:
        edges = RunEdges(taps, functions)
    elif support is not None and block in support:
        from .listed import ListedEdges  # with PyG, which dense networks do without

        index = support[block]
        edges = ListedEdges(index, taps[index[1], index[0]], functions, (taps.shape[1], taps.shape[0]))
    else:
        edges = DenseEdges(taps, functions)
    return PreparedStep(
        step,
        edges,
        scale[..., None, None],
        node_features(spec, step.written, tensors, scale, dtype),
        node_features(spec, step.read, tensors, scale, dtype),
        norm_gain(spec, step.written, tensors, dtype),
        norm_gain(spec, step.read, tensors, dtype),
    )


def norm_gain(spec: Spec, blocks: Sequence[Block], tensors: Mapping[str, Tensor], dtype: torch.dtype) -> Tensor | None:
    r"""What a norm multiplies each node with, :math:`\gamma / \sqrt{v}` of rms 1 over the nodes, or ``None``.

    In front of a norm the scale of a neuron's weights means nothing. Together with this factor it does: a network with
    BatchNorm then looks like the plain network it computes.
    """
    gain: Tensor | None = None
    for block in blocks:
        role = spec.params[block.param].role
        if role in ("norm_scale", "variance"):
            value = block.view(tensors[block.param]).to(dtype).mean(-1)
            factor = value if role == "norm_scale" else torch.rsqrt(value.clamp_min(0) + 1e-5)
            gain = factor if gain is None else gain * factor
    if gain is None:
        return None
    return (gain / gain.square().mean(-1, keepdim=True).sqrt().clamp_min(1e-12))[..., None]


def node_features(
    spec: Spec, blocks: Sequence[Block], tensors: Mapping[str, Tensor], scale: Tensor, dtype: torch.dtype
) -> Tensor | None:
    """One-axis parameters as features ``[..., n, roles]``, in units of the message they are added to."""
    if not blocks:
        return None
    columns: dict[str, Tensor] = {}
    for block in blocks:
        role = spec.params[block.param].role
        value = block.view(tensors[block.param]).to(dtype).mean(-1)
        if role in ("bias", "mean"):
            value = value / scale[..., None]
        elif role == "variance":
            value = value.clamp_min(0).sqrt() / scale[..., None]
        columns[role] = columns[role] + value if role in columns else value
    zero = torch.zeros_like(next(iter(columns.values())))
    return torch.asinh(torch.stack([columns.get(role, zero) for role in NODE_ROLES], dim=-1))
