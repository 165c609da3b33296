"""What each ATen operator does to axes: one small function per kind of operator.

A handler receives the tracer's :class:`State`, the node and its arguments, ties or pins dimensions, and returns the
dimensions of the result. Operators without a handler pin every axis they touch (:func:`unknown`): the symmetry found
is then smaller than it could be, never wrong.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, cast

import torch
from torch import fx

from .axes import Atom, Dim, fixed, free, leaves, pin, reshape, resolve, size_of, tie

POSITION = "position"
CONSTANT = "constant tensor"

Dims = list[Dim]


@dataclass
class Value:
    """Abstract tensor: its dimensions, and which weights stand next to it.

    Args:
        dims: One :data:`~wsgraph.axes.Dim` per dimension.
        param: Name of the state dict entry this value is, if it is one.
        writer: The weight whose output this value still is (up to pointwise functions and norms).
        pending: One-axis parameters applied to a value that no single weight wrote; the next weight takes them.
    """

    dims: Dims
    param: str | None = None
    writer: str | None = None
    pending: tuple[str, ...] = ()


def mark_feature(dim: Dim) -> None:
    for atom in leaves(dim):
        atom.feature = True


@dataclass
class State:
    """What the trace has found out about parameters besides their axes."""

    roles: dict[str, str] = field(default_factory=dict)
    reads: dict[str, int] = field(default_factory=dict)
    blocks: dict[str, str] = field(default_factory=dict)

    def contract(self, a: Dim, b: Dim) -> None:
        """Σ over two dimensions; a parameter among the operands reads its input along it."""
        for side in (a, b):
            for atom in (atom for part in side for atom in part):
                if atom.origin is not None:
                    self.reads.setdefault(*atom.origin)
            mark_feature(side)
        tie(a, b)

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


def is_pointwise(target: Any) -> bool:
    if not isinstance(target, torch._ops.OpOverload) or len(target._schema.returns) != 1:
        return False
    return torch.Tag.pointwise in target.tags


def is_known(target: Any) -> bool:
    return name_of(target) in HANDLERS or is_pointwise(target)


def is_understood(graph: fx.Graph) -> bool:
    """Whether every operator has a handler as it is, and none writes to its arguments."""
    targets = {node.target for node in graph.nodes if node.op == "call_function"} - {operator.getitem}
    return all(is_known(t) and isinstance(t, torch._ops.OpOverload) and not t._schema.is_mutable for t in targets)


def apply(state: State, node: fx.Node, args: Sequence[Any]) -> Value | list[Value]:
    """Interpret one node whose arguments are already interpreted."""
    handler = HANDLERS.get(name_of(node.target)) or (pointwise if is_pointwise(node.target) else unknown)
    return handler(state, node, args)


def shape_of(node: fx.Node) -> list[int]:
    return [int(size) for size in node.meta["val"].shape]


def inherit(data: Value, dims: Dims) -> Value:
    """A value that is still ``data`` for the question which weight wrote it."""
    return Value(dims, writer=data.writer, pending=data.pending)


def unknown(state: State, node: fx.Node, args: Sequence[Any]) -> Value | list[Value]:
    """Pin whatever the operator touches; one that returns nothing (an assertion) changes nothing."""
    if node.meta.get("val") is None:
        return Value([])
    why = f"{name_of(node.target)} is not understood"
    for value in values_in(args):
        for dim in value.dims:
            pin(dim, why)
    outputs = node.meta["val"]
    many = isinstance(outputs, (tuple, list))
    results = [
        Value([fixed(int(s), why) for s in getattr(out, "shape", ())]) for out in (outputs if many else [outputs])
    ]
    return results if many else results[0]


def values_in(args: Any) -> list[Value]:
    if isinstance(args, Value):
        return [args]
    if isinstance(args, dict):
        args = list(args.values())
    return [v for a in args for v in values_in(a)] if isinstance(args, (list, tuple)) else []


# ---------------------------------------------------------------------------------------------------- pointwise


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


# --------------------------------------------------------------------------------------------- layers with weights


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
    _pin_positions([*data.dims[channel + 1 :], *weight.dims[2:]])
    if groups == 1:
        state.contract(inputs, weight.dims[1])
    elif size_of(weight.dims[1]) == 1:
        _depthwise(inputs, outputs)
    else:
        for dim in (inputs, outputs, weight.dims[1]):
            pin(dim, f"conv with {groups} groups")
    if bias is not None:
        tie(bias.dims[0], outputs)
    out.dims = [*data.dims[:channel], resolve(outputs), *_positions(node, channel + 1)]
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
    _pin_positions([*data.dims[2:], *weight.dims[2:]])
    if bias is not None:
        tie(bias.dims[0], weight.dims[1])
    out.dims = [data.dims[0], resolve(weight.dims[1]), *_positions(node, 2)]
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


# --------------------------------------------------------------------------------------------------------- norms


@handles("batch_norm", "instance_norm", "_native_batch_norm_legit_no_training")
def channel_norm(state: State, node: fx.Node, args: Sequence[Any]) -> Value | list[Value]:
    data, scale, shift, mean, variance = args[:5]
    out = _norm(state, data, [1], {"norm_scale": scale, "norm_shift": shift, "mean": mean, "variance": variance})
    return [out] if isinstance(node.meta["val"], (tuple, list)) else out  # the other outputs are for training


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
    data, groups, scale, shift = (*args, None, None)[:4]
    channels = size_of(data.dims[1])
    if groups not in (1, channels):
        pin(data.dims[1], f"GroupNorm with {groups} groups of {channels // groups} channels")
    return _norm(state, data, [1], {"norm_scale": scale, "norm_shift": shift})


def _norm(state: State, data: Value, where: list[int], params: dict[str, Value | None]) -> Value:
    for value in params.values():
        for dim, k in zip(value.dims if value else [], where, strict=bool(value)):
            tie(data.dims[k], dim)
    out = inherit(data, list(data.dims))
    state.attach(out, params)
    return out


# ------------------------------------------------------------------------------------ pooling, resizing, reductions


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
    _pin_positions(data.dims[first:])
    if isinstance(outputs, (tuple, list)):
        return [inherit(data, [*data.dims[:first], *_positions(out, first)]) for out in outputs]
    return inherit(data, [*data.dims[:first], *_positions(node, first)])


def _pin_positions(dims: Dims) -> None:
    """What a kernel slides along has an order, even where it is the neurons of another layer."""
    for dim in dims:
        pin(dim, POSITION)


def _positions(out: fx.Node | torch.Tensor, first: int) -> Dims:
    shape = shape_of(out) if isinstance(out, fx.Node) else out.shape
    return [fixed(int(size), POSITION) for size in shape[first:]]


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


# ------------------------------------------------------------------------------------------------------- reshaping


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
        _pin_positions(dims[first:])
        return inherit(data, [*dims[:first], *_positions(node, first)])
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
