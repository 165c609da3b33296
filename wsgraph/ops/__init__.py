"""What each ATen operator does to axes: one small function per kind of operator.

A handler receives the tracer's :class:`State`, the node and its arguments, ties or pins dimensions, and returns the
dimensions of the result. Operators without a handler pin every axis they touch (:func:`unknown`): the symmetry found
is then smaller than it could be, never wrong.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from ..nesting import settle
from . import attention, indexing, layers, norms, ordered, routing, shapes, spatial
from .core import CONSTANT as CONSTANT
from .core import HANDLERS as HANDLERS
from .core import POSITION as POSITION
from .core import State as State
from .core import Value as Value
from .core import handles as handles
from .core import inherit as inherit
from .core import name_of as name_of
from .core import unknown as unknown
from .core import values_in as values_in
from .elementwise import pointwise

__all__ = [
    "CONSTANT", "HANDLERS", "POSITION", "State", "Value", "apply", "attention", "handles", "indexing",
    "inherit", "is_known", "is_pointwise", "is_understood", "layers", "name_of", "norms", "ordered", "routing",
    "shapes", "spatial", "unknown", "values_in",
]  # fmt: skip


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
    routing.use_numbers(node, args)
    out = handler(state, node, args)
    settle([value.dims for value in values_in([args, out])])
    return out
