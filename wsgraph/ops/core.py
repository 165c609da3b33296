"""What all handlers share: abstract values, the tracer's state, the registry, and the answer to unknown operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from ..axes import Dim, fixed, leaves, pin, tie
from ..nesting import limit

POSITION = "position"
NUMBERED = "its elements are numbered"
CONSTANT = "constant tensor"
RANDOM = "random numbers"

Dims = list[Dim]


@dataclass
class Value:
    """Abstract tensor: its dimensions, and which weights stand next to it.

    Args:
        dims: One :data:`~wsgraph.axes.Dim` per dimension.
        param: Name of the state dict entry this value is, if it is one.
        writer: The weight whose output this value still is (up to pointwise functions and norms).
        pending: One-axis parameters applied to a value that no single weight wrote; the next weight takes them.
        names: For numbers of elements (the experts that ``topk`` chooses), the axis whose elements they are.
    """

    dims: Dims
    param: str | None = None
    writer: str | None = None
    pending: tuple[str, ...] = ()
    names: Dim | None = None


def mark_feature(dim: Dim) -> None:
    for atom in leaves(dim):
        atom.feature = True


@dataclass
class State:
    """What the trace has found out about parameters besides their axes."""

    roles: dict[str, str] = field(default_factory=dict)
    reads: dict[str, int] = field(default_factory=dict)
    blocks: dict[str, str] = field(default_factory=dict)

    def contract(self, a: Dim, b: Dim, aligned: Sequence[Dim] = ()) -> None:
        """Σ over two dimensions; a parameter among the operands reads its input along it.

        Args:
            a: Dimension of the first operand.
            b: Dimension of the second.
            aligned: Dimensions that both operands have, already tied: the batch of a batched product.
        """
        for side in (a, b):
            for atom in (atom for part in side for atom in part):
                if atom.origin is not None:
                    self.reads.setdefault(*atom.origin)
            mark_feature(side)
        tie(a, b)
        limit(a, aligned)

    def attach(self, data: Value, params: dict[str, Value | None]) -> None:
        """Note role and neighbouring weight of one-axis parameters acting on ``data``."""
        for role, value in params.items():
            if value is not None and value.param is not None:
                self.roles.setdefault(value.param, role)
                if data.writer is not None:
                    self.blocks.setdefault(value.param, data.writer)
                else:
                    data.pending += (value.param,)

    def weight(self, data: Value, weight: Value, bias: Value | None = None) -> Value:
        """Record ``weight`` as the layer that reads ``data``; returns the (still dimensionless) output."""
        out = Value([], writer=weight.param)
        if weight.param is not None:
            self.roles.setdefault(weight.param, "weight")
            for name in data.pending:
                self.blocks.setdefault(name, weight.param)
        if bias is not None:
            self.attach(out, {"bias": bias})
        return out


Handler = Callable[[State, fx.Node, Sequence[Any]], "Value | list[Value]"]
HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


def name_of(target: Any) -> str:
    """``aten.conv2d.default`` → ``conv2d``."""
    return (
        target._schema.name.removeprefix("aten::")
        if isinstance(target, torch._ops.OpOverload)
        else getattr(target, "__name__", str(target))
    )


def argument(node: fx.Node, args: Sequence[Any], name: str) -> Any:
    """An operator's argument by its name in the schema, or its default."""
    schema = node.target._schema.arguments  # type: ignore[union-attr]
    k = next(k for k, argument in enumerate(schema) if argument.name == name)
    return args[k] if k < len(args) else schema[k].default_value


def shape_of(node: fx.Node) -> list[int]:
    return [int(size) for size in node.meta["val"].shape]


def inherit(data: Value, dims: Dims) -> Value:
    """A value that is still ``data`` for the question which weight wrote it."""
    return Value(dims, writer=data.writer, pending=data.pending, names=data.names)


@handles("sym_size", "sym_stride", "sym_storage_offset", "sym_numel", "sym_constrain_range_for_size")
def number(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """A number that says how a tensor is laid out and nothing about its values."""
    return Value([])


def unknown(state: State, node: fx.Node, args: Sequence[Any]) -> Value | list[Value]:
    """Pin whatever the operator touches; one that returns nothing (an assertion) changes nothing."""
    if node.meta.get("val") is None:
        return Value([])
    why = _reason(node, args)
    for value in values_in(args):
        for dim in value.dims if value.names is None else [*value.dims, value.names]:
            pin(dim, why)
    outputs = node.meta["val"]
    many = isinstance(outputs, (tuple, list))
    results = [
        Value([fixed(int(s), why) for s in getattr(out, "shape", ())]) for out in (outputs if many else [outputs])
    ]
    return results if many else results[0]


def _reason(node: fx.Node, args: Sequence[Any]) -> str:
    if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return RANDOM
    return f"{name_of(node.target)} is not understood" if values_in(args) else CONSTANT


def values_in(args: Any) -> list[Value]:
    if isinstance(args, Value):
        return [args]
    if isinstance(args, dict):
        args = list(args.values())
    return [v for a in args for v in values_in(a)] if isinstance(args, (list, tuple)) else []


def pin_positions(dims: Dims) -> None:
    """What a kernel slides along has an order, even where it is the neurons of another layer."""
    for dim in dims:
        pin(dim, POSITION)


def positions(out: fx.Node | torch.Tensor, first: int) -> Dims:
    shape = shape_of(out) if isinstance(out, fx.Node) else out.shape
    return [fixed(int(size), POSITION) for size in shape[first:]]
