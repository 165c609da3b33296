"""Things that lie one after the other along an axis: where each begins, and what a tensor holds there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from .spec import Axis, Product, Spec


def spans(sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(start, size) of things of these sizes, one after the other."""
    start = 0
    for size in sizes:
        yield start, size
        start += size


def part_sizes(spec: Spec, axis: Axis) -> list[int]:
    """Number of elements of every part of an axis."""
    return [prod(map(spec.factor_size, part)) for part in axis.parts]


def parts_along(spec: Spec, axis: Axis, tensor: Tensor, dim: int) -> Iterator[tuple[Product, Tensor]]:
    """Every part of an axis with its share of ``tensor``, in which one dimension per factor stands for ``dim``."""
    for part, share in zip(axis.parts, tensor.split(part_sizes(spec, axis), dim), strict=True):
        yield part, share.unflatten(dim, [spec.factor_size(f) for f in part])
