"""Operators along positions (pooling, resizing, padding by reflection) and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from ..axes import Atom, resolve, tie
from .core import State, Value, handles, inherit, name_of, pin_positions, positions, shape_of

POOLS = ("max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool", "lp_pool")


UPSAMPLES = ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "bicubic2d", "trilinear3d")


@handles(
    *(f"{prefix}{kind}{d}d" for kind in POOLS for d in "123" for prefix in ("", "_")),
    *(f"{kind}{d}d_with_indices" for kind in POOLS for d in "123"),
    *(f"upsample_{mode}" for mode in UPSAMPLES),
    *(f"{kind}_pad{d}d" for kind in ("reflection", "replication") for d in "123"),
)
def resample(state: State, node: fx.Node, args: Sequence[Any]) -> Value | list[Value]:
    """Acts on the spatial dimensions of every channel separately."""
    data = args[0]
    first = len(data.dims) - int(name_of(node.target).removesuffix("_with_indices")[-2])
    outputs = node.meta["val"]
    pin_positions(data.dims[first:])
    if isinstance(outputs, (tuple, list)):
        return [inherit(data, [*data.dims[:first], *positions(out, first)]) for out in outputs]
    return inherit(data, [*data.dims[:first], *positions(node, first)])


@handles("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sample(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Maps read at the places that a grid of coordinates ``[N, rows, columns, 2]`` tells, every channel alike."""
    data, grid = args[:2]
    pin_positions([*data.dims[2:], *grid.dims[1:]])
    tie(data.dims[0], grid.dims[0])
    return inherit(data, [*map(resolve, data.dims[:2]), *positions(node, 2)])


@handles("mean", "sum", "amax", "amin", "var", "std", "prod", "logsumexp", "linalg_vector_norm", "any", "all")
def reduce(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Invariant along the reduced axes, equivariant along the others."""
    data = args[0]
    dim = (*args, None, None)[2 if name_of(node.target) == "linalg_vector_norm" else 1]
    dim = node.kwargs.get("dim", dim)
    if not data.dims:
        return inherit(data, [])
    if not isinstance(dim, (int, list, tuple)) or dim == []:
        dim = range(len(data.dims))
    reduced = {d % len(data.dims) for d in ([dim] if isinstance(dim, int) else dim)}
    if len(shape_of(node)) == len(data.dims):
        return inherit(data, [((Atom(1),),) if k in reduced else d for k, d in enumerate(data.dims)])
    return inherit(data, [d for k, d in enumerate(data.dims) if k not in reduced])
