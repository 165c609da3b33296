"""Operators that only rearrange: reshape, transpose, concatenate, slice, pad with a constant."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from torch import fx

from ..axes import Atom, Dim, copies, fixed, leaves, pin, resolve, size_of, tie
from ..nesting import join, tell_apart
from ..regroup import cut, reshape
from .core import POSITION, Dims, State, Value, handles, inherit, name_of, pin_positions, positions, shape_of, unknown

SELECTED = "selected by index"


@handles("view", "reshape", "_unsafe_view", "flatten", "unflatten")
def view(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    if prod(map(size_of, args[0].dims)) != prod(shape_of(node)):  # bits read as another dtype
        return unknown(state, node, args)  # type: ignore[return-value]
    return inherit(args[0], reshape(args[0].dims, shape_of(node)))


@handles("permute")
def permute(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    return inherit(args[0], [args[0].dims[k] for k in args[1]])


@handles("transpose")
def transpose(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    dims = list(args[0].dims)
    i, j = args[1:3]
    dims[i], dims[j] = dims[j], dims[i]
    return inherit(args[0], dims)


@handles("t")
def t(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    return inherit(args[0], args[0].dims[::-1])


@handles("unsqueeze")
def unsqueeze(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    dims = list(args[0].dims)
    dims.insert(args[1] % (len(dims) + 1), ((Atom(1),),))
    return inherit(args[0], dims)


@handles("squeeze")
def squeeze(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    dims = args[0].dims
    where = range(len(dims)) if len(args) == 1 else [args[1]] if isinstance(args[1], int) else args[1]
    gone = {k % len(dims) for k in where if size_of(dims[k]) == 1}
    return inherit(args[0], [d for k, d in enumerate(dims) if k not in gone])


@handles("expand", "expand_as")
def expand(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """A repeated element looks the same from everywhere: the new axis is free, and free in every place."""
    shape, dims = shape_of(node), args[0].dims
    padded = [None] * (len(shape) - len(dims)) + list(dims)
    return inherit(
        args[0],
        [d if d is not None and size_of(d) == s else _copies(dims, s) for d, s in zip(padded, shape, strict=True)],
    )


def _copies(dims: Dims, count: int) -> Dim:
    return copies(count, tuple(leaf for dim in dims for leaf in leaves(dim)))


@handles("repeat")
def repeat(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Copies one after the other: [a, b] becomes [a, b, a, b]."""
    data, counts = args[:2]
    padded = [((Atom(1),),)] * (len(counts) - len(data.dims)) + list(data.dims)
    return inherit(data, [_repeated(data.dims, d, n) for d, n in zip(padded, counts, strict=True)])


def _repeated(dims: Dims, dim: Dim, count: int) -> Dim:
    if count == 1:
        return dim
    parts = resolve(dim)
    return parts * count if len(parts) > 1 else (_copies(dims, count)[0] + parts[0],)


@handles("repeat_interleave")
def repeat_interleave(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Every element several times in a row: [a, b] becomes [a, a, b, b]."""
    data, count, dim = (*args, None, None)[:3]
    if not isinstance(count, int) or dim is None:
        return unknown(state, node, args)  # type: ignore[return-value]
    dims = list(data.dims)
    dims[dim] = tuple(part + _copies(data.dims, count)[0] for part in resolve(dims[dim]))
    return inherit(data, dims)


@handles(
    "full",
    "zeros",
    "ones",
    "full_like",
    "zeros_like",
    "ones_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "scalar_tensor",
)
def uniform(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    return Value([copies(s) for s in shape_of(node)])


@handles("cat")
def cat(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    values = _not_empty(args[0])
    dim = (args[1] if len(args) > 1 else 0) % len(values[0].dims)
    for other in values[1:]:
        for k, (x, y) in enumerate(zip(values[0].dims, other.dims, strict=True)):
            if k != dim:
                tie(x, y)
    dims = list(values[0].dims)
    dims[dim] = tuple(part for v in values for part in resolve(v.dims[dim]))
    return Value(dims)


def _not_empty(values: Sequence[Value]) -> list[Value]:
    """What a concatenation is made of: an empty cache adds nothing, whatever its number of dimensions."""
    return [v for v in values if all(size_of(dim) for dim in v.dims)] or list(values[:1])


@handles("stack")
def stack(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """A new dimension, each entry of which is a tensor of its own."""
    values, dim = (*args, 0)[:2]
    entries = Atom(len(values), pinned="stacked")
    dims = [join(entries, each) for each in zip(*(v.dims for v in values), strict=True)]
    dims.insert(dim % (len(dims) + 1), ((entries,),))
    return Value(dims)


@handles("constant_pad_nd", "pad")
def constant_pad(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Padding with a constant is a concatenation with elements that all look alike; other modes act on positions."""
    data, pads = args[:2]
    dims = list(data.dims)
    if name_of(node.target) == "pad" and (*args, "constant")[2] != "constant":
        first = len(dims) - len(pads) // 2
        pin_positions(dims[first:])
        return inherit(data, [*dims[:first], *positions(node, first)])
    for k in range(len(pads) // 2):
        before, after = pads[2 * k : 2 * k + 2]
        if all(a.pinned for a in leaves(dims[-k - 1])) or min(before, after) < 0:
            pin(dims[-k - 1], "cropped")
            dims[-k - 1] = fixed(shape_of(node)[-k - 1], POSITION)
        else:
            ends = [copies(n) if n else () for n in (before, after)]
            dims[-k - 1] = (*ends[0], *resolve(dims[-k - 1]), *ends[1])
    return inherit(data, dims)


@handles("slice", "narrow")
def slice_(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """A run of neighbours is a part of its own; with a step in between, positions matter."""
    data, dim, start = (*args, 0, None)[:3]
    dims = list(data.dims)
    size, length = size_of(dims[dim]), shape_of(node)[dim]
    if length == size:
        return inherit(data, dims)
    if len(args) > 4 and args[4] != 1:
        pin(dims[dim], "sliced")
        dims[dim] = fixed(length, "sliced")
        return inherit(data, dims)
    start = min(max(start + size if (start or 0) < 0 else start or 0, 0), size - length)
    dims[dim] = cut(dims[dim], [start, length, size - length - start])[1]
    return inherit(data, dims)


@handles("split", "split_with_sizes", "chunk")
def split(state: State, node: fx.Node, args: Sequence[Any]) -> list[Value]:
    """Consecutive pieces, the inverse of ``cat``."""
    data, dim = args[0], args[2] if len(args) > 2 else 0
    sizes = [int(piece.shape[dim]) for piece in node.meta["val"]]
    rows = []
    for piece in cut(data.dims[dim], sizes):
        dims = list(data.dims)
        dims[dim] = piece
        rows.append(inherit(data, dims))
    return rows


@handles("select")
def select(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    data, dim, index = args[:3]
    return _take(data, dim, index % size_of(data.dims[dim]))


@handles("unbind")
def unbind(state: State, node: fx.Node, args: Sequence[Any]) -> list[Value]:
    data, dim = (*args, 0)[:2]
    return [_take(data, dim, i) for i in range(size_of(data.dims[dim]))]


def _take(data: Value, dim: int, index: int) -> Value:
    """One entry along a dimension. If others are nested in it (Q, K and V fused as 3 × heads × dims), that entry's."""
    where = dim % len(data.dims)
    others = [d for k, d in enumerate(data.dims) if k != where]
    chosen = resolve(data.dims[where])
    if len(chosen) == len(chosen[0]) == 1:
        return inherit(data, tell_apart(others, chosen[0][0], index, SELECTED))
    pin(data.dims[where], SELECTED)
    return inherit(data, others)


@handles("flip", "roll")
def reorder(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Order matters along the dimensions that are turned; no element is where it was. The others pass through."""
    data, where = args[0], args[-1] if name_of(node.target) == "flip" else (*args, [])[2]
    if not where:  # rolled as if it were flat
        return unknown(state, node, args)  # type: ignore[return-value]
    pin_positions([data.dims[k] for k in where])
    dims = list(data.dims)
    for k in where:
        dims[k] = fixed(size_of(dims[k]), POSITION)
    return inherit(data, dims)


@handles("pixel_shuffle")
def pixel_shuffle(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Channels × rows × columns of a cell become one map: channels move, the places in a cell do not."""
    data, factor = args[:2]
    channels, *cell = reshape([data.dims[-3]], [shape_of(node)[-3], factor, factor])
    pin_positions([*cell, *data.dims[-2:]])
    return inherit(data, [*data.dims[:-3], channels, *positions(node, len(data.dims) - 2)])
