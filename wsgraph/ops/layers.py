"""Operators that multiply by a weight: what is contracted is tied, what is left is the output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch import fx

from ..axes import Dim, fixed, pin, reshape, resolve, size_of, tie
from .core import POSITION, State, Value, handles, mark_feature, pin_positions, positions, unknown


@handles("linear")
def linear(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    data, weight, bias = (*args, None)[:3]
    if len(weight.dims) == 1:
        return cast(Value, matmul(state, node, (data, weight)))
    out = state.weight(data, weight, bias)
    state.contract(data.dims[-1], weight.dims[1])
    mark_feature(weight.dims[0])
    if bias is not None:
        tie(bias.dims[0], weight.dims[0])
    out.dims = [*data.dims[:-1], resolve(weight.dims[0])]
    return out


@handles("conv1d", "conv2d", "conv3d")
def conv(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    data, weight = args[:2]
    bias = args[2] if len(args) > 2 else None
    groups = args[6] if len(args) > 6 else 1
    spatial = len(weight.dims) - 2
    batched = len(data.dims) == spatial + 2
    channel = 1 if batched else 0
    out = state.weight(data, weight, bias)
    inputs, outputs = data.dims[channel], weight.dims[0]
    mark_feature(outputs)
    pin_positions([*data.dims[channel + 1 :], *weight.dims[2:]])
    if groups == 1:
        state.contract(inputs, weight.dims[1])
    elif size_of(weight.dims[1]) == 1:
        _depthwise(inputs, outputs)
    else:
        for dim in (inputs, outputs, weight.dims[1]):
            pin(dim, f"conv with {groups} groups")
    if bias is not None:
        tie(bias.dims[0], outputs)
    out.dims = [*data.dims[:channel], resolve(outputs), *positions(node, channel + 1)]
    return out


def _depthwise(inputs: Dim, outputs: Dim) -> None:
    """Each input channel has its own kernels: outputs move with it, several per channel as fixed positions."""
    per_channel = size_of(outputs) // size_of(inputs)
    mark_feature(inputs)
    tie(outputs, reshape([inputs, fixed(per_channel, POSITION)], [size_of(outputs)])[0] if per_channel > 1 else inputs)


@handles("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    data, weight = args[:2]
    bias = args[2] if len(args) > 2 else None
    groups = args[6] if len(args) > 6 else 1
    if groups != 1 or len(data.dims) != len(weight.dims):
        return unknown(state, node, args)  # type: ignore[return-value]
    out = state.weight(data, weight, bias)
    state.contract(data.dims[1], weight.dims[0])
    mark_feature(weight.dims[1])
    pin_positions([*data.dims[2:], *weight.dims[2:]])
    if bias is not None:
        tie(bias.dims[0], weight.dims[1])
    out.dims = [data.dims[0], resolve(weight.dims[1]), *positions(node, 2)]
    return out


@handles("mm", "bmm", "matmul", "mv", "dot")
def matmul(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Σ over the last dimension of the first and the last but one of the second; those before are broadcast."""
    a, b = args[:2]
    data, weight = (b, a) if a.param is not None else (a, b)
    out = state.weight(data, weight)
    state.contract(a.dims[-1], b.dims[-2] if len(b.dims) > 1 else b.dims[0])
    for x, y in zip(reversed(a.dims[:-2]), reversed(b.dims[:-2]), strict=False):
        if size_of(x) == size_of(y):
            tie(x, y)
    longer, shorter = (a, b) if len(a.dims) >= len(b.dims) else (b, a)
    lead = list(longer.dims[:-2])
    for k, dim in enumerate(reversed(shorter.dims[:-2]), 1):
        lead[-k] = lead[-k] if size_of(lead[-k]) > 1 else dim
    out.dims = [resolve(dim) for dim in [*lead, *a.dims[-2:-1], *(b.dims[-1:] if len(b.dims) > 1 else [])]]
    if weight.param is not None:
        for dim in weight.dims[-2:]:
            mark_feature(dim)
    return out


@handles("addmm", "baddbmm")
def addmm(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    bias, a, b = args[:3]
    out = cast(Value, matmul(state, node, (a, b)))
    for k in range(1, len(bias.dims) + 1):
        if size_of(bias.dims[-k]) == size_of(out.dims[-k]):
            tie(bias.dims[-k], out.dims[-k])
    state.attach(out, {"bias": bias})
    return out


@handles("embedding")
def embedding(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    table, index = args[:2]
    out = state.weight(index, table)
    pin(table.dims[0], "indexed by tokens")
    for dim in index.dims:
        pin(dim, POSITION)
    for dim in table.dims:
        mark_feature(dim)
    if table.param is not None:
        state.reads.setdefault(table.param, 0)
    out.dims = [*index.dims, resolve(table.dims[1])]
    return out
