"""The algebra behind the tracer: what the axes of tensors are made of, and what ties them together.

An :class:`Atom` is an unknown of a unification problem. A tensor's dimension (:data:`Dim`) is a *sum of products* of
atoms: ``Flatten`` multiplies them (``C × H × W``), ``cat`` adds them (``C₁ + C₂``), everything else is one atom. Tying
two dimensions makes them move together; what remains unbound at the end is a permutation group.

    tie(A, B):   atom = atom            → one atom
                 atom = product or sum  → the atom is bound to that structure
                 anything else          → both sides are pinned: the symmetry found is smaller, never wrong
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Part: TypeAlias = "tuple[Atom, ...]"
"""A row-major product of axes, e.g. ``(channels, rows, columns)``."""
Dim: TypeAlias = "tuple[Part, ...]"
"""One dimension of a tensor: parts laid one after the other, usually a single one."""


@dataclass(eq=False)
class Atom:
    """An unknown axis of ``size`` elements.

    Args:
        size: Number of elements.
        pinned: Why the axis may not be permuted; empty while it may.
        bound: The structure this axis turned out to be; ``None`` while it is atomic.
        origin: Parameter name and dimension it was created for, or ``None`` for an axis of an activation.
        feature: Whether a parameter connects neurons along it (as opposed to positions, batch entries or taps).
        activations: Names of the pointwise functions applied along it, in order of execution.
    """

    size: int
    pinned: str = ""
    bound: Dim | None = None
    origin: tuple[str, int] | None = None
    feature: bool = False
    activations: list[str] = field(default_factory=list)


def free(size: int) -> Dim:
    """A dimension nothing is known about yet."""
    return ((Atom(size),),)


def fixed(size: int, why: str) -> Dim:
    """A dimension whose elements have an identity of their own: pixels, batch entries, classes."""
    return ((Atom(size, pinned=why),),)


def size_of(dim: Sequence[Part]) -> int:
    return sum(part_size(part) for part in dim)


def part_size(part: Sequence[Atom]) -> int:
    return prod(atom.size for atom in part)


def resolve(dim: Dim) -> Dim:
    """Replace every bound axis by its structure, so that only atomic axes remain."""
    return tuple(resolved for part in dim for resolved in _resolve_part(part))


def _resolve_part(part: Part) -> Dim:
    products: Dim = ((),)
    for atom in part:
        inner = ((atom,),) if atom.bound is None else resolve(atom.bound)
        if len(inner) > 1 and any(done for done in products):
            # (p × (a + b)) is stored as p blocks of (a + b): exact only while p itself does not move.
            before = [a for done in products for a in done]
            pin(tuple((a,) for a in before), "repeated blocks of a concatenation")
            count = sum(part_size(done) for done in products)
            products = tuple(p for _ in range(count) for p in inner)
        elif len(inner) > 1:
            products = inner
        else:
            products = tuple(done + inner[0] for done in products)
    return products


def leaves(dim: Dim) -> list[Atom]:
    """All atomic axes of a dimension."""
    return [atom for part in resolve(dim) for atom in part]


def pin(dim: Dim, why: str) -> None:
    """Forbid every permutation of this dimension; the first reason given is kept."""
    for atom in leaves(dim):
        atom.pinned = atom.pinned or why


def tie(a: Dim, b: Dim, why: str = "incompatible shapes") -> None:
    """Make two dimensions move together (see the module's docstring)."""
    a, b = resolve(a), resolve(b)
    if size_of(a) != size_of(b):
        raise ValueError(f"cannot tie a dimension of {size_of(a)} elements to one of {size_of(b)}")
    for left, right in _chunks(a, b, size_of):
        if len(left) == len(right) == 1:
            _tie_parts(left[0], right[0], why)
        elif len(left) == 1 and len(left[0]) == 1:
            _bind(left[0][0], right)
        elif len(right) == 1 and len(right[0]) == 1:
            _bind(right[0][0], left)
        else:
            pin(left + right, why)


def _tie_parts(a: Part, b: Part, why: str) -> None:
    if len(a) > 1 and len(b) > 1:  # atoms of one element move nowhere and would only disturb the walk
        a, b = (tuple(atom for atom in part if atom.size > 1) for part in (a, b))
    for left, right in _chunks(a, b, part_size):
        if len(left) == 1:
            _bind(left[0], (right,))
        elif len(right) == 1:
            _bind(right[0], (left,))
        else:
            pin((left, right), why)


def _bind(atom: Atom, dim: Dim) -> None:
    dim = resolve(dim)
    if atom.bound is not None:
        tie(atom.bound, dim)
        return
    if atom in leaves(dim):  # the axis itself, up to axes of one element
        return
    atom.bound = dim
    if atom.pinned:
        pin(dim, atom.pinned)
    for leaf in leaves(dim):
        leaf.feature |= atom.feature
        leaf.activations += [name for name in atom.activations if name not in leaf.activations]


def _chunks(
    a: Sequence[T], b: Sequence[T], total: Callable[[Sequence[T]], int]
) -> Iterator[tuple[tuple[T, ...], tuple[T, ...]]]:
    """Walk two sequences of equal total size side by side and yield the shortest runs of equal size.

    One side alone yields everything: ``(1, 28, 28)`` against ``784`` keeps its axis of one element.
    """
    if len(a) == 1 or len(b) == 1:
        yield tuple(a), tuple(b)
        return
    i = j = 0
    while i < len(a) or j < len(b):
        left, right = [a[i]], [b[j]]
        i, j = i + 1, j + 1
        while (difference := total(left) - total(right)) != 0:
            if difference < 0:
                left.append(a[i])
                i += 1
            else:
                right.append(b[j])
                j += 1
        yield tuple(left), tuple(right)


def reshape(dims: list[Dim], shape: list[int]) -> list[Dim]:
    """Row-major reshape. Axes are regrouped; one that would be cut in two is pinned.

    Args:
        dims: Dimensions of the tensor before.
        shape: Sizes after; the product must be the same.
    """
    out: list[Dim] = []
    i = j = 0
    while i < len(dims) or j < len(shape):
        old: list[Dim] = []
        new: list[int] = []
        while not old or not new or prod(map(size_of, old)) != prod(new):
            if not old or (new and i < len(dims) and prod(map(size_of, old)) < prod(new)):
                if i == len(dims):
                    break
                old.append(dims[i])
                i += 1
            else:
                if j == len(shape):
                    break
                new.append(shape[j])
                j += 1
        if not old:  # trailing dimensions of one element appear
            return out + [free(1) for _ in shape[j:]]
        if not new:  # trailing dimensions of one element disappear
            continue
        out += _regroup(old, new)
    return out


def _regroup(old: list[Dim], new: list[int]) -> list[Dim]:
    old = [resolve(dim) for dim in old]
    if len(old) == len(new) == 1:
        return old
    if len(new) == 1 and all(len(dim) == 1 for dim in old[1:]):
        tail = tuple(atom for dim in old[1:] for atom in dim[0])
        return [tuple(part + tail for part in old[0])]
    if all(len(dim) == 1 for dim in old):
        flat = [atom for dim in old for atom in dim[0]]
        if (split := _fill(flat, new)) is not None:
            return split
    for dim in old:
        pin(dim, "split by a reshape")
    return [fixed(size, "split by a reshape") for size in new]


def _fill(flat: list[Atom], sizes: list[int]) -> list[Dim] | None:
    """Distribute whole axes over dimensions of the given sizes, or ``None`` if one would have to be cut."""
    queue = [atom for atom in flat if atom.size > 1]
    ones = [atom for atom in flat if atom.size == 1]
    out: list[Dim] = []
    for size in sizes:
        part: Part = ()
        while part_size(part) < size:
            part += (queue.pop(0),)
        if part_size(part) != size:
            return None
        if not part:
            part = (ones.pop(0) if ones else Atom(1),)
        out.append((part,))
    return out
