"""Numbers of elements as values: experts that ``topk`` chooses for every token, and tokens sorted by their experts.

A tensor of numbers *names* the elements of an axis (:attr:`Value.names`). Whoever uses the numbers as such tells the
elements apart, which pins the axis. Whoever only looks up what belongs to the elements does not: the axis may move, if
everything that is looked up moves along. Entries sorted by such numbers are an axis that *follows* the named one
(:attr:`Atom.follows`): they come in another order when it moves, until the inverse of the sorting brings them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from ..axes import Atom, Dim, fixed, leaves, pin, resolve, size_of, tie
from .core import NUMBERED, State, Value, handles, mark_feature, name_of, unknown, values_in

LOOKING_UP = {
    "view", "reshape", "_unsafe_view", "flatten", "unflatten", "permute", "transpose", "unsqueeze", "squeeze",
    "expand", "clone", "contiguous", "to", "_to_copy", "detach", "alias", "sort", "argsort", "index",
    "index_select", "gather", "scatter", "scatter_add", "index_put", "histc", "bincount", "one_hot",
}  # fmt: skip
"""Operators that may be given numbers of elements: they rearrange them, or look up what belongs to the elements."""
GROUPED = {"_grouped_mm", "transformers::grouped_mm_fallback"}
CASTS = {"to", "_to_copy", "detach", "alias", "clone"}


def named(numbers: Value, dim: Dim, why: str) -> None:
    """What is looked up by numbers along ``dim``: it moves with the elements they name, or is pinned."""
    if numbers.names is not None and size_of(numbers.names) == size_of(dim):
        tie(numbers.names, dim)
    else:
        pin(dim, why)


def tell_apart(*values: Any) -> None:
    """Numbers that are used as such: what they name is pinned, and they are numbers like any other."""
    for value in values_in(values):
        if value.names is not None:
            pin(value.names, NUMBERED)
            value.names = None


def use_numbers(node: fx.Node, args: Sequence[Any]) -> None:
    """Before an operator that does not just look up."""
    if name_of(node.target) not in LOOKING_UP and node.meta.get("val") is not None:
        tell_apart(args)


def sorted_by_name(data: Value) -> list[Value] | None:
    """Numbers in order, and where each of them stood; ``None`` for what names nothing or is no plain list."""
    if data.names is None or len(data.dims) != 1:
        tell_apart(data)
        return None
    if follows(data.dims[0]) and _is_still(data.names):  # the order itself, sorted: its inverse
        return [Value([data.names]), Value([data.names], names=data.dims[0])]
    order: Dim = ((Atom(size_of(data.dims[0]), follows=tuple(leaves(data.names))),),)
    return [Value([order], names=data.names), Value([order], names=data.dims[0])]


def follows(*dims: Dim) -> bool:
    """Whether entries along one of the dimensions come in an order that something else decides."""
    return any(atom.follows for dim in dims for atom in leaves(dim))


def _is_still(dim: Dim) -> bool:
    return all(atom.pinned for atom in leaves(dim))


def inverse_order(node: fx.Node, chosen: Sequence[Value | None]) -> Value | None:
    """``inverse[order] = arange(n)``, where ``order`` is what ``sort`` returned; ``None`` for other assignments."""
    places = chosen[0]
    if len(chosen) != 1 or places is None or places.names is None or not follows(places.dims[0]):
        return None
    order, numbers = node.args[1][0], node.args[2]  # type: ignore[index]
    if not (_is_order(order) and _counts_up(numbers)):
        return None
    return Value([places.names], names=places.dims[0])


def _is_order(given: Any) -> bool:
    """Whether a node is where the sorted entries stood: each place once."""
    source = given.args[0] if isinstance(given, fx.Node) and given.args else None
    return isinstance(source, fx.Node) and name_of(source.target) == "sort"


def _counts_up(given: Any) -> bool:
    """Whether a node is 0, 1, 2, …"""
    if not isinstance(given, fx.Node) or name_of(given.target) != "arange":
        return False
    names = [argument.name for argument in given.target._schema.arguments]  # type: ignore[union-attr]
    asked = {**dict(zip(names, given.args, strict=False)), **given.kwargs}
    return asked.get("start", 0) == 0 and asked.get("step", 1) == 1


@handles("histc", "bincount")
def counts(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """How often each element is named."""
    data = args[0]
    size = int(node.meta["val"].shape[0])
    whole = name_of(node.target) == "bincount" or list(args[1:4]) == [size, 0, size - 1]
    if data.names is not None and size_of(data.names) == size and whole:
        return Value([resolve(data.names)])
    return unknown(state, node, args)  # type: ignore[return-value]


@handles("one_hot")
def one_hot(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """A new last dimension: the elements that are named."""
    data, classes = args[0], int(node.meta["val"].shape[-1])
    if data.names is not None and size_of(data.names) == classes:
        return Value([*data.dims, resolve(data.names)])
    tell_apart(data)
    return Value([*data.dims, fixed(classes, NUMBERED)])


@handles(*GROUPED)
def grouped_mm(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """Rows sorted by expert, every stretch of them times the matrix of its expert.

    Shapes:
        - **rows:** ``[S, in]``; **experts:** ``[E, in, out]``; **ends** of the stretches: ``[E]``
        - **output:** ``[S, out]``
    """
    rows, experts, ends = args[:3]
    if len(rows.dims) != 2 or len(experts.dims) != 3 or ends is None:
        return unknown(state, node, args)  # type: ignore[return-value]
    tie(experts.dims[0], ends.dims[0])
    sorted_by = {leaf for atom in leaves(rows.dims[0]) for outer in atom.follows for leaf in leaves(((outer,),))}
    if not sorted_by.issuperset(atom for atom in leaves(ends.dims[0]) if atom.size > 1):
        pin(ends.dims[0], NUMBERED)
    out = state.weight(rows, experts)
    state.contract(rows.dims[1], experts.dims[1], aligned=[rows.dims[0], experts.dims[0]])
    mark_feature(experts.dims[2])
    out.dims = [rows.dims[0], resolve(experts.dims[2])]
    return out


def are_ends(node: fx.Node) -> bool:
    """Whether a running sum tells where the stretches of a grouped product end, and nothing else."""
    source: Any = node.args[0]
    while isinstance(source, fx.Node) and name_of(source.target) in CASTS:
        source = source.args[0]
    return isinstance(source, fx.Node) and name_of(source.target) in ("histc", "bincount") and _only_grouped(node)


def _only_grouped(node: fx.Node) -> bool:
    return all(
        (name_of(user.target) in GROUPED and user.args[1] is not node and user.args[0] is not node)
        or (name_of(user.target) in CASTS and _only_grouped(user))
        for user in node.users
        if user.meta.get("val") is not None
    )
