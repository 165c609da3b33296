"""Operators that read or write where an index, a mask or a slice says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from ..axes import Dim, fixed, leaves, pin, resolve, size_of, tie
from ..regroup import cut
from .core import Dims, State, Value, handles, inherit, name_of, shape_of, unknown, values_in
from .elementwise import pointwise
from .routing import follows, inverse_order, named, tell_apart
from .shapes import expand

CHOSEN = "chosen by index"


@handles("index", "index_select")
def index(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Entries chosen by number: order matters along the dimensions that are indexed, the others pass through."""
    data = args[0]
    chosen = args[1] if name_of(node.target) == "index" else [None] * (args[1] % len(data.dims)) + [args[2]]
    where = _indexed(node, chosen)
    if where is None:
        return unknown(state, node, args)  # type: ignore[return-value]
    if len(where) == 1 and len(numbers := values_in(chosen)) == 1 and _are_listed(*numbers):
        return _looked_up(data, where[0], *numbers)
    tell_apart(chosen)
    _pin_all([*(data.dims[k] for k in where), *_dims_of(chosen)])
    new = len(shape_of(node)) - len(data.dims) + len(where)
    chosen_dims = [fixed(s, CHOSEN) for s in shape_of(node)[where[0] : where[0] + new]]
    return inherit(data, [*data.dims[: where[0]], *chosen_dims, *data.dims[where[-1] + 1 :]])


def _are_listed(numbers: Value) -> bool:
    """Whether an index names elements of some axis, or lists entries in an order that something else decides."""
    return numbers.names is not None or follows(*numbers.dims)


def _looked_up(data: Value, at: int, numbers: Value) -> Value:
    """``data[numbers]``: entries of the elements that are named, in the order they are named in."""
    named(numbers, data.dims[at], CHOSEN)
    return inherit(data, [*data.dims[:at], *map(resolve, numbers.dims), *data.dims[at + 1 :]])


@handles("index_put")
def index_put(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """``data[chosen] = values``: what is not indexed moves with the values that are put there."""
    data, chosen, values = args[:3]
    if (inverse := inverse_order(node, chosen)) is not None:
        return inverse
    tell_apart(args)
    where = _indexed(node, chosen)
    if len(chosen) == 1 and _is_mask(node, 0) and all(size_of(dim) == 1 for dim in values.dims):
        return pointwise(state, node, (data, _padded(chosen[0], len(data.dims))))  # as torch.where
    if where is None:
        return unknown(state, node, args)  # type: ignore[return-value]
    _pin_all([*(data.dims[k] for k in where), *_dims_of(chosen)])
    rank = max(1 if _is_mask(node, k) else len(v.dims) for k, v in enumerate(chosen) if v is not None)
    met: list[Dim | None] = [*data.dims[: where[0]], *[None] * rank, *data.dims[where[-1] + 1 :]]
    for old, new in zip(reversed(met), reversed(values.dims), strict=False):
        if old is None:
            pin(new, CHOSEN)
        elif size_of(old) == size_of(new):
            tie(old, new)
    return inherit(data, [fixed(size_of(d), CHOSEN) if k in where else resolve(d) for k, d in enumerate(data.dims)])


def _indexed(node: fx.Node, chosen: Sequence[Value | None]) -> list[int] | None:
    """The dimensions that are indexed; ``None`` unless they are neighbours. A mask indexes as many as it has."""
    where: list[int] = []
    at = 0
    for k, value in enumerate(chosen):
        count = len(value.dims) if value is not None and _is_mask(node, k) else 1
        where += range(at, at + count) if value is not None else []
        at += count
    return where if where and where == list(range(where[0], where[-1] + 1)) else None


def _is_mask(node: fx.Node, k: int) -> bool:
    """Whether the k-th index of ``aten.index`` or ``aten.index_put`` is a boolean mask."""
    given = node.args[1][k] if isinstance(node.args[1], (list, tuple)) else None
    return isinstance(given, fx.Node) and given.meta["val"].dtype in (torch.bool, torch.uint8)


def _padded(mask: Value, rank: int) -> Value:
    """The mask with trailing dimensions of one element, as it is broadcast over what it selects."""
    return Value([*mask.dims, *(fixed(1, CHOSEN) for _ in range(rank - len(mask.dims)))])


def _dims_of(values: Sequence[Value | None]) -> Dims:
    return [dim for value in values if value is not None for dim in value.dims]


def _pin_all(dims: Sequence[Dim]) -> None:
    for dim in dims:
        pin(dim, CHOSEN)


def _without(dims: Dims, k: int) -> Dims:
    return [dim for i, dim in enumerate(dims) if i != k]


@handles("gather")
def gather(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """``out[i, j] = data[index[i, j], j]``: the columns of data and index move together."""
    data, dim, chosen = args[:3]
    if not data.dims:
        return inherit(data, [])
    at = dim % len(data.dims)
    named(chosen, data.dims[at], CHOSEN)
    _same_or_pin(_without(data.dims, at), _without(chosen.dims, at))
    return inherit(data, [resolve(dim) for dim in chosen.dims])


@handles("scatter", "scatter_add", "scatter_reduce")
def scatter(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """``out[index[i, j], j] += source[i, j]``: columns move together, and so do the rows of index and source."""
    data, dim, chosen, source = args[:4]
    if not data.dims:
        return unknown(state, node, args)  # type: ignore[return-value]
    at = dim % len(data.dims)
    named(chosen, data.dims[at], CHOSEN)
    sides = [data, chosen, *([source] if isinstance(source, Value) and source.dims else [])]
    tell_apart(data, source)
    _same_or_pin(*(_without(side.dims, at) for side in sides))
    _same_or_pin(*([side.dims[at]] for side in sides[1:]))
    if name_of(node.target) == "scatter":  # of several that go to one place, the last one stays
        _pin_all([side.dims[at] for side in sides[1:]])
    return inherit(data, [*map(resolve, data.dims)])


@handles("index_add", "index_copy", "index_fill")
def index_add(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """``out[index[i]] += source[i]``: what is not indexed moves together, and so do index and source."""
    data, dim, chosen, source = args[:4]
    if not data.dims:
        return unknown(state, node, args)  # type: ignore[return-value]
    at = dim % len(data.dims)
    pin(data.dims[at], CHOSEN)
    if isinstance(source, Value) and source.dims:
        _same_or_pin(_without(data.dims, at), _without(source.dims, at))
        _same_or_pin(chosen.dims, [source.dims[at]])
    if name_of(node.target) != "index_add":
        _pin_all([*chosen.dims, *([source.dims[at]] if isinstance(source, Value) and source.dims else [])])
    return inherit(data, _replaced(data.dims, at))


def _same_or_pin(*aligned: Sequence[Dim]) -> None:
    """Tie dimensions side by side; where they differ in size, one is a stretch of the other, and order matters."""
    for dims in zip(*aligned, strict=True):
        if len({size_of(dim) for dim in dims}) > 1:
            _pin_all(dims)
        else:
            for dim in dims[1:]:
                tie(dims[0], dim)


def _replaced(dims: Dims, at: int) -> Dims:
    """The dimensions of what was written to: along the one that was indexed, no place is like another any more."""
    return [fixed(size_of(dim), CHOSEN) if k == at else resolve(dim) for k, dim in enumerate(dims)]


@handles("copy")
def copy(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """``data[...] = source``: nothing of the data is left."""
    return expand(state, node, args[1:2])  # type: ignore[return-value]


@handles("slice_scatter")
def slice_scatter(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """``data[start:end] = source``: a concatenation of what comes before, the source and what comes after."""
    data, source, dim, start, _, step = (*args, *(0, None, None, 1)[len(args) - 2 :])[:6]
    at, size = dim % len(data.dims), size_of(data.dims[dim])
    _same_or_pin(_without(data.dims, at), _without(source.dims, at))
    dims, length = [resolve(d) for d in data.dims], size_of(source.dims[at])
    if length == size:
        dims[at] = resolve(source.dims[at])
    elif step != 1:
        _pin_all([data.dims[at], source.dims[at]])
        dims[at] = fixed(size, CHOSEN)
    else:
        first = min(max(start + size if (start or 0) < 0 else start or 0, 0), size - length)
        before, _, after = cut(data.dims[at], [first, length, size - length - first])
        dims[at] = (*before, *resolve(source.dims[at]), *after)
    return Value(dims)


@handles("masked_scatter")
def masked_scatter(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """``data[mask] = source`` in order: rows that the mask takes as a whole move with the rows of the source."""
    data, mask, source = args[:3]
    rows = 0
    while rows < min(len(data.dims), len(source.dims)) and _is_uniform(mask, rows):
        if size_of(data.dims[-rows - 1]) != size_of(source.dims[-rows - 1]):
            break
        rows += 1
        tie(data.dims[-rows], source.dims[-rows])
    whole = len(data.dims) - rows
    _pin_all([*data.dims[:whole], *mask.dims, *source.dims[: len(source.dims) - rows]])
    return inherit(data, [*(fixed(size_of(d), CHOSEN) for d in data.dims[:whole]), *map(resolve, data.dims[whole:])])


def _is_uniform(mask: Value, k: int) -> bool:
    """Whether a mask is the same along its k-th dimension from the end."""
    return k >= len(mask.dims) or all(atom.copies or atom.size == 1 for atom in leaves(mask.dims[-k - 1]))


@handles("select_scatter")
def select_scatter(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """``data[k] = source``: one place is unlike the others, which all have the same dimensions."""
    data, source, dim = args[:3]
    at = dim % len(data.dims)
    pin(data.dims[at], CHOSEN)
    _same_or_pin(_without(data.dims, at), source.dims)
    return Value(_replaced(data.dims, at))
