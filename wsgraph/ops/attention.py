"""Attention as one operator: heads are tied over queries, keys and values; dims inside heads in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from ..axes import Dim, copies, leaves, pin, resolve, size_of, tie
from .core import POSITION, State, Value, handles, unknown

DEFAULTS = (None, 0.0, False, None, False)
"""Of mask, dropout, causal, scale and grouped."""


@handles("scaled_dot_product_attention")
def attention(state: State, node: fx.Node, args: Sequence[Any]) -> Value:
    """softmax(q kᵀ / √d + mask) v, head by head.

    Shapes:
        - **q:** ``[..., heads, L, d]``; **k:** ``[..., heads, S, d]``; **v:** ``[..., heads, S, e]``
        - **output:** ``[..., heads, L, e]``
    """
    q, k, v = args[:3]
    options: list[Any] = [*args[3:], *DEFAULTS[len(args) - 3 :]]
    mask, dropout, causal, _, grouped = options
    if dropout:
        return unknown(state, node, args)  # type: ignore[return-value]
    if grouped and len(q.dims) > 2:
        k, v = (Value([*x.dims[:-3], _shared(x.dims[-3], size_of(q.dims[-3])), *x.dims[-2:]]) for x in (k, v))
    lead = []
    for a, b, c in zip(q.dims[:-2], k.dims[:-2], v.dims[:-2], strict=True):
        same = [dim for dim in (a, b, c) if size_of(dim) > 1]
        for dim in same[1:]:
            tie(same[0], dim)
        lead.append(resolve(same[0]) if same else a)
    tie(k.dims[-2], v.dims[-2])
    state.contract(q.dims[-1], k.dims[-1], aligned=lead)
    if causal:
        pin(q.dims[-2], POSITION)
        pin(k.dims[-2], POSITION)
    if mask is not None:
        for dim, seen in zip(reversed([*lead, q.dims[-2], k.dims[-2]]), reversed(mask.dims), strict=False):
            if size_of(dim) == size_of(seen):
                tie(dim, seen)
    return Value([*lead, q.dims[-2], resolve(v.dims[-1])])


def _shared(heads: Dim, queries: int) -> Dim:
    """Every key head serves a run of query heads, which may move among themselves."""
    served = copies(queries // size_of(heads), tuple(leaves(heads)))[0]
    return tuple(part + served for part in resolve(heads))
