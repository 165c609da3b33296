"""The answer of a network among all that it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

Output = Callable[[Any], Tensor]
"""Picks the tensor that a loss is about."""


def logits(returned: Any) -> Tensor:
    """The tensor itself, or the one called ``logits``."""
    found = returned.get("logits") if isinstance(returned, Mapping) else returned
    if isinstance(found, Tensor):
        return found
    names = f" of {list(returned)}" if isinstance(returned, Mapping) else ""
    raise TypeError(
        f"the network returns a {type(returned).__name__}{names}, expected a tensor, or a dict with a tensor 'logits'; "
        "say which tensor to judge it by, as in output=lambda returned: returned[0]"
    )
