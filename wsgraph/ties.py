"""Tied tensors: one tensor under several names stays one, whatever is done to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from torch import Tensor


def untied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every tensor once, under the first of its names."""
    first: dict[int, str] = {}
    for name, tensor in tensors.items():
        first.setdefault(id(tensor), name)
    return {name: tensors[name] for name in first.values()}


def map_tied(
    tensors: Mapping[str, Tensor],
    function: Callable[[str, Tensor], Tensor],
    kind: Callable[[str], Hashable] = lambda name: None,
) -> dict[str, Tensor]:
    """``function(name, tensor)`` of every entry, called once for entries that share a tensor: their results do too.

    Args:
        tensors: By name.
        function: Of the first name and the tensor.
        kind: Of a name; entries of different kinds are treated apart although they share a tensor.
    """
    done: dict[tuple[int, Hashable], Tensor] = {}
    out = {}
    for name, tensor in tensors.items():
        key = id(tensor), kind(name)
        if key not in done:
            done[key] = function(name, tensor)
        out[name] = done[key]
    return out


def replace_tied(tensors: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with those that ``new`` names replaced, under all the names they have."""
    by_old = {id(tensors[name]): tensor for name, tensor in new.items()}
    return {name: by_old.get(id(old), old) for name, old in tensors.items()}
