"""Normalisation layers: their parameters and statistics belong to the channels they act on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from ..axes import Atom, size_of, tie
from ..regroup import into_runs
from .core import State, Value, handles, inherit, name_of


@handles("batch_norm", "instance_norm", "_native_batch_norm_legit_no_training")
def channel_norm(state: State, node: fx.Node, args: Sequence[Any]) -> Value | list[Value]:
    data, scale, shift, mean, variance = args[:5]
    out = _norm(state, data, [1], {"norm_scale": scale, "norm_shift": shift, "mean": mean, "variance": variance})
    return [out] if isinstance(node.meta["val"], (tuple, list)) else out  # the other outputs are for training


@handles("_native_batch_norm_legit")
def own_statistics(state: State, node: fx.Node, args: Sequence[Any]) -> list[Value]:
    """BatchNorm by the statistics of the data itself, as in weight standardisation."""
    data, scale, shift = args[:3]
    out = _norm(state, data, [1], {"norm_scale": scale, "norm_shift": shift})
    return [out, Value([data.dims[1]]), Value([data.dims[1]])]


@handles("layer_norm", "rms_norm", "_fused_rms_norm")
def trailing_norm(state: State, node: fx.Node, args: Sequence[Any]) -> Value | list[Value]:
    data, normalized, *affine = args[:4] if name_of(node.target) == "layer_norm" else args[:3]
    scale, shift = (*affine, None, None)[:2]
    first = len(data.dims) - len(normalized)
    out = _norm(state, data, list(range(first, len(data.dims))), {"norm_scale": scale, "norm_shift": shift})
    if isinstance(node.meta["val"], (tuple, list)):
        return [out, Value([*data.dims[:first], *(((Atom(1),),) for _ in normalized)])]
    return out


@handles("group_norm")
def group_norm(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Runs of channels are normalised together: they move as one, and inside each in their own way."""
    data, groups, scale, shift = (*args, None, None)[:4]
    channels = size_of(data.dims[1])
    if groups not in (1, channels):
        into_runs(data.dims[1], channels // groups, f"GroupNorm with {groups} groups of {channels // groups} channels")
    return _norm(state, data, [1], {"norm_scale": scale, "norm_shift": shift})


def _norm(state: State, data: Value, where: list[int], params: dict[str, Value | None]) -> Value:
    for value in params.values():
        for dim, k in zip(value.dims if value else [], where, strict=bool(value)):
            tie(data.dims[k], dim)
    out = inherit(data, list(data.dims))
    state.attach(out, params)
    return out
