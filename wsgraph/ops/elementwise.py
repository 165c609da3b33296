"""Functions applied element by element: aligned axes move together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from ..axes import Atom, leaves, resolve, size_of, tie
from .core import Dims, State, Value, handles, inherit, name_of, shape_of, unknown, values_in

NOT_ACTIVATIONS = {
    "clone",
    "neg",
    "mul",
    "add",
    "sub",
    "rsub",
    "div",
    "pow",
    "where",
    "clamp",
    "masked_fill",
    "eq",
    "ne",
    "gt",
    "ge",
    "lt",
    "le",
}


def pointwise(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """f(x, y, …) element by element: aligned dimensions move together."""
    operands = [v for v in values_in(args) if v.dims]
    dims: Dims = [((Atom(1),),) for _ in shape_of(node)]
    for operand in operands:
        for k in range(1, len(operand.dims) + 1):
            old, new = dims[-k], operand.dims[-k]
            if size_of(old) == size_of(new):
                tie(old, new)
            dims[-k] = old if size_of(new) == 1 else resolve(new)
    data = [v for v in operands if v.param is None]
    params = [v for v in operands if v.param is not None]
    if len(data) == 1:
        state.attach(data[0], {"other": params[0]} if params else {})
        if not params and name_of(node.target) not in NOT_ACTIVATIONS:
            for atom in (a for dim in dims for a in leaves(dim)):
                atom.activations.append(name_of(node.target))
        return inherit(data[0], dims)
    return Value(dims)


@handles(
    "dropout", "feature_dropout", "alpha_dropout", "contiguous", "_to_copy", "to", "detach", "alias", "lift_fresh_copy",
    "detach_copy", "hardswish", "log_sigmoid", "softmax", "_softmax", "log_softmax", "_log_softmax",
)  # fmt: skip
def same(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Equivariant along every axis and of the same shape (dropout: as long as it is off)."""
    if "dropout" in name_of(node.target) and args[2]:
        return unknown(state, node, args)  # type: ignore[return-value]
    if name_of(node.target) in ("hardswish", "log_sigmoid"):
        return pointwise(state, node, args)
    return inherit(args[0], list(args[0].dims))


@handles("prelu")
def prelu(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    data, slope = args[:2]
    if size_of(slope.dims[0]) > 1:
        tie(data.dims[1], slope.dims[0])
    state.attach(data, {"slope": slope})
    for atom in leaves(data.dims[1] if len(data.dims) > 1 else data.dims[0]):
        atom.activations.append("prelu")
    return inherit(data, list(data.dims))
