"""Operators that only rearrange: reshape, transpose, concatenate, slice, pad with a constant."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from torch import fx

from ..axes import Atom, fixed, free, leaves, pin, reshape, resolve, size_of, tie
from .core import POSITION, State, Value, handles, inherit, name_of, pin_positions, positions, shape_of, unknown


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
    """A repeated element looks the same from everywhere: the new axis is free."""
    shape, dims = shape_of(node), args[0].dims
    padded = [None] * (len(shape) - len(dims)) + list(dims)
    return inherit(
        args[0], [d if d is not None and size_of(d) == s else free(s) for d, s in zip(padded, shape, strict=True)]
    )


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
    return Value([free(s) for s in shape_of(node)])


@handles("cat")
def cat(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    values = [v for v in args[0] if v.dims]
    dim = (args[1] if len(args) > 1 else 0) % len(values[0].dims)
    for other in values[1:]:
        for k, (x, y) in enumerate(zip(values[0].dims, other.dims, strict=True)):
            if k != dim:
                tie(x, y)
    dims = list(values[0].dims)
    dims[dim] = tuple(part for v in values for part in resolve(v.dims[dim]))
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
            ends = [free(n) if n else () for n in (before, after)]
            dims[-k - 1] = (*ends[0], *resolve(dims[-k - 1]), *ends[1])
    return inherit(data, dims)


@handles("slice", "narrow")
def slice_(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    data, dim = args[0], args[1] if len(args) > 1 else 0
    dims = list(data.dims)
    if shape_of(node)[dim] != size_of(dims[dim]):
        pin(dims[dim], "sliced")
        dims[dim] = fixed(shape_of(node)[dim], "sliced")
    return inherit(data, dims)


@handles("select")
def select(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    data, dim = args[:2]
    pin(data.dims[dim], "selected by index")
    return inherit(data, [d for k, d in enumerate(data.dims) if k != dim % len(data.dims)])
