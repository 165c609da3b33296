"""The tracer's algebra: what the axes of tensors are made of, and what ties them together.

An :class:`Atom` is an unknown of a unification problem. A tensor's dimension (:data:`Dim`) is a *sum of products* of
atoms: ``Flatten`` multiplies them (``C × H × W``), ``cat`` adds them (``C₁ + C₂``), everything else is one atom. Tying
two dimensions makes them move together; what remains unbound at the end is a permutation group.

    tie(A, B):   atom = atom            → one atom
                 atom = product or sum  → the atom is bound to that structure
                 product = product      → atoms are split until they match, e.g. 4 × 4 against 2 × 8 as 2 × 2 × 4
                 anything else          → both sides are pinned: the symmetry found is smaller, never wrong

A split atom becomes a *nested* pair: ``heads × dims``, where the permutation of ``dims`` may be another one in every
head (``dims.inside == (heads,)``). That holds as long as every tensor with ``dims`` also has ``heads``; see
:mod:`wsgraph.nesting`. :mod:`wsgraph.regroup` reshapes and cuts dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias, TypeVar

T = TypeVar("T")
CONCATENATED = "repeated concatenation"
SORTED = "sorted"
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
        inside: Axes whose every element may permute this one in its own way.
        claims: What axes that were tied to this one are inside of; settled at the end of the operator.
        instances: For an axis of runs that ``forward`` tells apart, what this axis is in each of them.
        told: Axes that have instances in each element of this one.
        copies: Whether the tensor it was made for is the same everywhere along it (zeros, ``expand``).
        follows: Axes whose elements the entries along this one were sorted by (tokens by their experts): every entry
            belongs to one element, and the entries come in another order when those move.
    """

    size: int
    pinned: str = ""
    bound: Dim | None = None
    origin: tuple[str, int] | None = None
    feature: bool = False
    activations: list[str] = field(default_factory=list)
    inside: tuple[Atom, ...] = ()
    claims: list[tuple[Atom, ...]] = field(default_factory=list)
    instances: dict[Atom, list[Atom]] = field(default_factory=dict)
    told: list[Atom] = field(default_factory=list)
    copies: bool = False
    follows: tuple[Atom, ...] = ()


def free(size: int) -> Dim:
    """A dimension nothing is known about yet."""
    return ((Atom(size),),)


def fixed(size: int, why: str) -> Dim:
    """A dimension whose elements have an identity of their own: pixels, batch entries, classes."""
    return ((Atom(size, pinned=why),),)


def copies(size: int, inside: tuple[Atom, ...] = ()) -> Dim:
    """A dimension along which nothing changes."""
    return ((Atom(size, inside=inside, copies=True),),)


def size_of(dim: Sequence[Part]) -> int:
    return sum(part_size(part) for part in dim)


def part_size(part: Sequence[Atom]) -> int:
    return prod(atom.size for atom in part)


def resolve(dim: Dim) -> Dim:
    """Replace every bound axis by its structure, so that only atomic axes remain."""
    while len(dim) == 1 and len(dim[0]) == 1:  # nearly always
        bound = dim[0][0].bound
        if bound is None:
            return dim
        dim = bound
    return tuple(done for part in dim for flat in _resolve_part(part) for done in _told_apart(flat))


def _resolve_part(part: Part) -> Dim:
    products: Dim = ((),)
    for atom in part:
        inner = ((atom,),) if atom.bound is None else resolve(atom.bound)
        if len(inner) == 1:
            products = tuple(done + inner[0] for done in products)
        elif _still(products):
            products = inner * size_of(products)
        elif (alike := _made_alike(inner)) is not None:
            atom.bound = (alike,)
            products = tuple(done + alike for done in products)
        else:
            # p × (a + b) is laid out as p times (a + b): no sum of products where p moves, so one axis, pinned.
            atom.pinned = CONCATENATED
            pin(inner, CONCATENATED)
            products = tuple((*done, atom) for done in products)
    return products


def _made_alike(parts: Dim) -> Part | None:
    """a + b + … inside an axis that moves, as (number of parts) × a: queries, keys and values laid out head by head.

    They then move alike, which is less than they could, but can be said as a product. ``None`` where they differ.
    """
    if len({tuple(atom.size for atom in part) for part in parts}) > 1:
        return None
    first, *others = parts
    for other in others:
        tie((first,), (other,))
    done = resolve((first,))
    return (Atom(len(parts), pinned=CONCATENATED), *done[0]) if len(done) == 1 else None


def _still(products: Dim) -> bool:
    return all(atom.pinned for part in products for atom in part)


def _told_apart(part: Part) -> Dim:
    """Runs × inner, where forward treats every run in its own way, is a concatenation of them."""
    for k, runs in enumerate(part):
        rest = part[k + 1 :]
        if any(runs in atom.instances for atom in rest):
            if not _still((part[:k],)):  # not a concatenation: every run is treated alike after all
                for atom in rest:
                    if runs in atom.instances:
                        forget(atom, runs)
                return resolve((part,))
            each = tuple(p for i in range(runs.size) for p in resolve((in_run(rest, runs, i),)))
            return each * part_size(part[:k])
    return (part,)


def in_run(part: Part, runs: Atom, i: int) -> Part:
    """A product as it is in run i."""
    return tuple(atom.instances[runs][i] if runs in atom.instances else atom for atom in part)


def leaves(dim: Dim) -> list[Atom]:
    """All atomic axes of a dimension."""
    return [atom for part in resolve(dim) for atom in part]


def pin(dim: Dim, why: str) -> None:
    """Forbid every permutation of this dimension; the first reason given is kept."""
    for atom in leaves(dim):
        pin_atom(atom, why)


def pin_atom(atom: Atom, why: str) -> None:
    """Pin one atomic axis, what it is in runs that are told apart, and what its order depends on."""
    atom.pinned = atom.pinned or why
    followed, atom.follows = atom.follows, ()
    for outer in followed:
        pin(((outer,),), why)
    for instance in (i for instances in atom.instances.values() for i in instances):
        pin(((instance,),), why)


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
    if len(a) == 1 or len(b) == 1:  # also where a factor is of one element: (1, 28, 28) against 784
        _bind(*((a[0], (b,)) if len(a) == 1 else (b[0], (a,))))
        return
    left, right = ([atom for atom in part if atom.size > 1] for part in (a, b))
    while left and right:
        x, y = left.pop(0), right.pop(0)
        if x.size == y.size:
            tie(((x,),), ((y,),), why)
        elif x.size % y.size == 0:
            left[:0], right[:0] = split(x, [y.size, x.size // y.size]), [y]
        elif y.size % x.size == 0:
            left[:0], right[:0] = [x], split(y, [x.size, y.size // x.size])
        else:
            pin(((x, *left), (y, *right)), why)
            return


def split(atom: Atom, sizes: Sequence[int]) -> list[Atom]:
    """Cut an atomic axis into a row-major product: each factor may move in its own way inside those before it."""
    made: list[Atom] = []
    for size in sizes:
        made.append(Atom(size, inside=(*atom.inside, *made)))
    _bind(atom, (tuple(made),))
    return made


def _bind(atom: Atom, dim: Dim) -> None:
    dim = resolve(dim)
    if atom.bound is not None:
        tie(atom.bound, dim)
        return
    inner = leaves(dim)
    if atom in inner:  # the axis itself, up to axes of one element
        return
    if len(inner) == 1 and _stays(atom, inner[0]):
        _bind(inner[0], ((atom,),))
        return
    if atom.follows or (not atom.copies and any(leaf.follows for leaf in inner)):
        pin(((atom,), *dim), SORTED)  # nothing else is in the same order
    for nested in list(atom.told):
        forget(nested, atom)
    atom.bound = dim
    if atom.pinned:
        pin(dim, atom.pinned)
    for leaf in inner:
        leaf.feature |= atom.feature
        leaf.copies &= atom.copies
        leaf.activations += [name for name in atom.activations if name not in leaf.activations]
        if not atom.copies:  # what is the same everywhere stays so, however differently it is permuted
            leaf.claims.append((*atom.inside, *inner))
    for runs, instances in atom.instances.items():
        for i, instance in enumerate(instances):
            tie(((instance,),), tuple(in_run(part, runs, i) for part in dim))


def _stays(atom: Atom, other: Atom) -> bool:
    """Whether the first of two axes that turn out to be one must not be bound: runs told apart, or a sorted order."""
    return bool(atom.told and not other.told) or bool(atom.follows and other.copies)


def forget(atom: Atom, runs: Atom) -> None:
    """The axis is the same in all runs after all."""
    runs.told.remove(atom)
    for instance in atom.instances.pop(runs):
        tie(((instance,),), ((atom,),))


def _chunks(
    a: Sequence[T], b: Sequence[T], total: Callable[[Sequence[T]], int]
) -> Iterator[tuple[tuple[T, ...], tuple[T, ...]]]:
    """Walk two sequences of equal total size side by side and yield the shortest stretches of equal size."""
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
