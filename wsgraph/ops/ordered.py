"""Operators along one dimension that rank its elements, or take them in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from ..axes import SORTED, Dim, fixed, pin, resolve, size_of
from ..regroup import reshape
from .core import (
    NUMBERED,
    Dims,
    State,
    Value,
    argument,
    handles,
    inherit,
    name_of,
    pin_positions,
    positions,
    shape_of,
)
from .elementwise import pointwise
from .routing import are_ends, sorted_by_name
from .spatial import reduce

IN_ORDER, FREQUENCIES = "taken in order", "Fourier transform"


@handles("max", "min", "median", "nanmedian", "mode", "kthvalue")
def extreme(state: State, node: fx.Node, args: Sequence[Any]) -> Value | list[Value]:
    """One element along a dimension, the same in whichever order they are; only its number is not."""
    if len(args) > 1 and isinstance(args[1], Value):
        return pointwise(state, node, args)
    if not isinstance(node.meta["val"], (tuple, list)):
        return reduce(state, node, args[:1])
    dim = argument(node, args, "dim")
    rest = _replaced(args[0].dims, dim, fixed(1, SORTED))
    kept = len(node.meta["val"][0].shape) == len(args[0].dims)
    out = inherit(args[0], rest if kept or not rest else [d for k, d in enumerate(rest) if k != dim % len(rest)])
    return [out, Value(list(out.dims), names=_along(args[0], dim))]


@handles("argmax", "argmin")
def number_of_extreme(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    data, dim = args[0], argument(node, args, "dim")
    if dim is None:
        for along in data.dims:
            pin(along, NUMBERED)
    out = reduce(state, node, (data, dim))
    return Value(out.dims, names=None if dim is None else _along(data, dim))  # type: ignore[union-attr]


@handles("sort", "topk")
def ranked(state: State, node: fx.Node, args: Sequence[Any]) -> list[Value]:
    """Elements by size: the same in whichever order they were, and in an order of their own after."""
    data, dim = args[0], argument(node, args, "dim")
    if name_of(node.target) == "sort" and (found := sorted_by_name(data)) is not None:
        return found
    length = int(node.meta["val"][0].shape[dim]) if data.dims else 1
    dims = _replaced(data.dims, dim, fixed(length, SORTED))
    return [inherit(data, dims), Value(list(dims), names=_along(data, dim))]


@handles("argsort")
def numbers_of_ranked(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    data, dim = args[0], argument(node, args, "dim")
    if (found := sorted_by_name(data)) is not None:
        return found[1]
    return Value(_replaced(data.dims, dim, fixed(size_of(data.dims[dim]), SORTED)), names=_along(data, dim))


@handles("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin")
def running(state: State, node: fx.Node, args: Sequence[Any]) -> Value | list[Value]:
    """Order matters along the dimension that is summed up; the others move freely."""
    data, dim = args[0], argument(node, args, "dim")
    if not data.dims or are_ends(node):
        return inherit(data, data.dims)
    pin(data.dims[dim], IN_ORDER)
    out = inherit(data, _replaced(data.dims, dim, fixed(size_of(data.dims[dim]), IN_ORDER)))
    return [out, Value(list(out.dims))] if isinstance(node.meta["val"], (tuple, list)) else out


@handles("_fft_c2c", "_fft_r2c", "_fft_c2r")
def fourier(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Frequencies along some dimensions; the others move freely."""
    data, where = args[0], {k % len(args[0].dims) for k in args[1]}
    for k in where:
        pin(data.dims[k], FREQUENCIES)
    counted = shape_of(node)
    return inherit(data, [fixed(counted[k], FREQUENCIES) if k in where else d for k, d in enumerate(data.dims)])


@handles("view_as_real")
def real_and_imaginary(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    return inherit(args[0], [*args[0].dims, fixed(2, "real and imaginary part")])


@handles("view_as_complex")
def complex_numbers(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    pin(args[0].dims[-1], "real and imaginary part")
    return inherit(args[0], list(args[0].dims[:-1]))


@handles("tril", "triu")
def triangle(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Which entries of a matrix stay depends on their places."""
    pin_positions(args[0].dims[-2:])
    return inherit(args[0], [*args[0].dims[:-2], *positions(node, len(args[0].dims) - 2)])


@handles("unfold")
def windows(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Windows along a dimension, and the places in a window as a new last one."""
    data, dim = args[:2]
    at = dim % max(len(data.dims), 1)
    pin_positions(data.dims[at : at + 1])
    counted = positions(node, 0)
    return inherit(data, [*data.dims[:at], counted[at], *data.dims[at + 1 :], counted[-1]])


@handles("im2col")
def patches(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """``[..., channels, rows, columns]`` → ``[..., channels × taps, places]``: channels move, taps do not."""
    data = args[0]
    *batch, channels, rows, columns = data.dims
    pin_positions([rows, columns])
    taps = fixed(shape_of(node)[-2] // size_of(channels), IN_ORDER)[0]
    return inherit(data, [*batch, tuple(part + taps for part in resolve(channels)), *positions(node, len(batch) + 1)])


@handles("col2im")
def image(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """The inverse: ``[..., channels × taps, places]`` → ``[..., channels, rows, columns]``."""
    data = args[0]
    *batch, stacked, places = data.dims
    channels, taps = reshape([stacked], [n := shape_of(node)[-3], size_of(stacked) // n])
    pin_positions([taps, places])
    return inherit(data, [*batch, channels, *positions(node, len(batch) + 1)])


def _along(data: Value, dim: int) -> Dim | None:
    """What numbers of elements along a dimension name."""
    return resolve(data.dims[dim]) if data.dims else None


def _replaced(dims: Dims, dim: int, new: Dim) -> Dims:
    return [new if dims and k == dim % len(dims) else d for k, d in enumerate(dims)]
