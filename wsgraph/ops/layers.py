"""Operators that multiply by a weight: what is contracted is tied, what is left is the output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch import fx

from ..axes import Atom, Dim, free, leaves, pin, resolve, size_of, tie
from ..regroup import into_runs
from .core import POSITION, State, Value, handles, mark_feature, pin_positions, positions, unknown, values_in


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
    inputs, outputs, filters = data.dims[channel], weight.dims[0], weight.dims[1]
    mark_feature(outputs)
    pin_positions([*data.dims[channel + 1 :], *weight.dims[2:]])
    if groups == 1:
        state.contract(inputs, filters)
    else:
        _grouped(state, inputs, outputs, filters, groups)
    if bias is not None:
        tie(bias.dims[0], outputs)
    out.dims = [*data.dims[:channel], resolve(outputs), *positions(node, channel + 1)]
    return out


def _grouped(state: State, inputs: Dim, outputs: Dim, filters: Dim, groups: int, transposed: bool = False) -> None:
    """Every run of inputs feeds a run of outputs; depthwise where runs are single channels.

    Args:
        inputs: Channels of the data.
        outputs: Channels of the result.
        filters: The weight's dimension inside runs (of inputs; of outputs if transposed).
        groups: Number of runs.
        transposed: Whether the weight has the inputs first.
    """
    reads, writes = (size_of(dim) // groups for dim in (inputs, outputs))
    pairs = into_runs(inputs, reads, f"conv with {groups} groups")
    mark_feature(inputs)
    if not pairs:
        for dim in (outputs, filters):
            pin(dim, f"conv with {groups} groups")
        return
    written = [(Atom(writes, inside=tuple(leaves((runs,)))),) for runs, _ in pairs]
    tie(outputs, tuple(runs + run for (runs, _), run in zip(pairs, written, strict=True)))
    for (runs, read), run in zip(pairs, written, strict=True):
        if size_of(filters) > 1:
            state.contract((run if transposed else read,), filters, aligned=[(runs,)])


@handles("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    data, weight = args[:2]
    bias = args[2] if len(args) > 2 else None
    groups = args[6] if len(args) > 6 else 1
    if len(data.dims) != len(weight.dims):
        return unknown(state, node, args)  # type: ignore[return-value]
    out = state.weight(data, weight, bias)
    pin_positions([*data.dims[2:], *weight.dims[2:]])
    state.contract(data.dims[1], weight.dims[0])
    outputs = weight.dims[1] if groups == 1 else free(size_of(weight.dims[1]) * groups)
    mark_feature(outputs)
    if groups > 1:
        _grouped(state, data.dims[1], outputs, weight.dims[1], groups, transposed=True)
    if bias is not None:
        tie(bias.dims[0], outputs)
    out.dims = [data.dims[0], resolve(outputs), *positions(node, 2)]
    return out


@handles("mm", "bmm", "matmul", "mv", "dot")
def matmul(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Σ over the last dimension of the first and the last but one of the second; those before are broadcast."""
    a, b = args[:2]
    data, weight = (b, a) if a.param is not None else (a, b)
    out = state.weight(data, weight)
    aligned = []
    for x, y in zip(reversed(a.dims[:-2]), reversed(b.dims[:-2]), strict=False):
        if size_of(x) == size_of(y):
            tie(x, y)
            aligned.append(x)
    state.contract(a.dims[-1], b.dims[-2] if len(b.dims) > 1 else b.dims[0], aligned)
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


@handles("bilinear")
def bilinear(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """``out[o] = Σ left[i] weight[o, i, j] right[j] + bias[o]``."""
    left, right, weight, bias = (*args, None)[:4]
    out = state.weight(left, weight, bias)
    for x, y in zip(left.dims[:-1], right.dims[:-1], strict=True):
        tie(x, y)
    state.contract(left.dims[-1], weight.dims[1])
    state.contract(right.dims[-1], weight.dims[2])
    mark_feature(weight.dims[0])
    if bias is not None:
        tie(bias.dims[0], weight.dims[0])
    out.dims = [*map(resolve, left.dims[:-1]), resolve(weight.dims[0])]
    return out


@handles("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(state: State, node: fx.Node, args: Sequence[Any]) -> list[Value]:
    """Sum, mean or maximum of the rows in every bag, column by column."""
    table, *others = values_in(args)
    rows = cast(Value, embedding(state, node, (table, others[0])))
    for dim in (dim for value in others for dim in value.dims):
        pin(dim, POSITION)
    bags, *rest = node.meta["val"]
    rows.dims = [*positions(bags, 0)[:1], rows.dims[-1]]
    return [rows, *(Value(positions(out, 0)) for out in rest)]


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
