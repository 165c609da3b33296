"""Which axes may be permuted differently in every run of another: the dims inside attention heads.

An axis D *inside* an axis H has one permutation per element of H. That makes sense in a tensor only where the element
of H is known: H is a dimension of the tensor too, and the same one wherever two tensors meet. What breaks this makes
D lose H, so that all runs share one permutation: a smaller symmetry, never a wrong one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import prod

from .axes import Atom, Dim, forget, in_run, leaves, pin, resolve, size_of


def outer_axes(atom: Atom) -> tuple[Atom, ...]:
    """The atomic axes this one is inside of; none for a pinned one, which is the same everywhere."""
    if atom.pinned:
        return ()
    found = dict.fromkeys(leaf for outer in atom.inside for leaf in leaves(((outer,),)))
    return tuple(outer for outer in found if outer is not atom)


def followed(atom: Atom) -> list[Atom]:
    """The atomic axes that an axis tells by its order: each of its entries belongs to one element of them."""
    return [leaf for outer in atom.follows for leaf in leaves(((outer,),))]


def keep(atom: Atom, inside: Iterable[Atom]) -> None:
    """Let the axis be inside these others only; its instances in what it leaves turn out to be one and the same."""
    kept = set(inside)
    atom.inside = tuple(outer for outer in outer_axes(atom) if outer in kept)
    for runs in [runs for runs in atom.instances if runs not in kept]:
        forget(atom, runs)


def settle(tensors: Sequence[Sequence[Dim]]) -> None:
    """After an operator: what was tied stays inside axes that all of it agrees on and that each of the tensors has."""
    for atom in _all_leaves(tensors):
        agreed = [{leaf for outer in claim for leaf in leaves(((outer,),))} for claim in atom.claims]
        atom.claims.clear()
        if atom.inside:
            keep(atom, [outer for outer in outer_axes(atom) if all(outer in claim for claim in agreed)])
    for dims in tensors:
        _ground(dims)


def _ground(dims: Sequence[Dim]) -> None:
    """Keep only outer axes known wherever the inner one is: in the same product, or else once, on another dimension."""
    resolved = [resolve(dim) for dim in dims]
    count = Counter(atom for dim in resolved for part in dim for atom in part)
    for here in resolved:
        around = {atom for dim in resolved if dim is not here and len(dim) == 1 for atom in dim[0] if count[atom] == 1}
        around |= {outer for atom in around for outer in followed(atom)}
        for part in here:
            for atom in part:
                if atom.inside:
                    keep(atom, [outer for outer in outer_axes(atom) if part.count(outer) == 1 or outer in around])


def renewed(dims: Sequence[Dim]) -> list[Dim]:
    """The same dimensions with new axes for copies: what one use of equal elements ties does not concern another."""
    new = {a: Atom(a.size, inside=a.inside, copies=True) for dim in dims for a in leaves(dim) if a.copies}
    if not new:
        return list(dims)
    for atom in new.values():
        atom.inside = tuple(new.get(outer, outer) for outer in atom.inside)
    return [tuple(tuple(new.get(atom, atom) for atom in part) for part in resolve(dim)) for dim in dims]


def limit(dim: Dim, aligned: Sequence[Dim]) -> None:
    """Σ over ``dim``: both operands must be in the same run, so only outer axes in ``dim`` or ``aligned`` count."""
    known = {leaf for d in (dim, *aligned) for leaf in leaves(d)}
    known |= {outer for leaf in known for outer in followed(leaf)}
    for leaf in leaves(dim):
        if leaf.inside:
            keep(leaf, [outer for outer in outer_axes(leaf) if outer in known])


def tell_apart(dims: Sequence[Dim], runs: Atom, index: int, why: str) -> list[Dim]:
    """Dimensions of run number ``index``, taken out of a tensor: what is inside ``runs`` becomes an axis of its own."""
    pin(((runs,),), why)
    for atom in {leaf for dim in dims for leaf in leaves(dim)}:
        _make_instances(atom, runs)
    return [tuple(in_run(part, runs, index) for part in resolve(dim)) for dim in dims]


def join(runs: Atom, each: Sequence[Dim]) -> Dim:
    """The inverse: a dimension that is ``each[i]`` in run i."""
    first, *others = map(resolve, each)
    if all(first == other for other in others):
        return first
    whole = Atom(size_of(first), inside=(runs,))
    whole.instances[runs] = [Atom(whole.size, bound=dim) for dim in each]
    runs.told.append(whole)
    return ((whole,),)


def _make_instances(atom: Atom, runs: Atom) -> None:
    if runs not in outer_axes(atom) or runs in atom.instances:
        return
    around = [outer for outer in outer_axes(atom) if outer is not runs]
    runs.told.append(atom)
    made = [
        Atom(atom.size, atom.pinned, feature=atom.feature, activations=list(atom.activations)) for _ in range(runs.size)
    ]
    atom.instances[runs] = made
    for outer in around:  # some may be inside this one in turn, as the axes of a parameter are
        _make_instances(outer, runs)
    for i, instance in enumerate(made):
        instance.inside = tuple(o.instances[runs][i] if runs in o.instances else o for o in around)


def parent_of(atom: Atom) -> Atom | None:
    """The innermost axis this one is nested in."""
    return max(outer_axes(atom), key=lambda outer: len(outer_axes(outer)), default=None)


def anchor(params: Sequence[Sequence[Dim]]) -> None:
    """At the end: nest every axis in one other, which every parameter that has the first has too."""
    before = None
    while before != (before := _snapshot(params)):
        settle(params)
        for atom in _all_leaves(params):
            for runs in list(atom.instances):  # on another dimension than the runs: not a concatenation of them
                forget(atom, runs)
            keep(atom, _longest_chain(atom))
        _flatten_towers(params)


def _flatten_towers(params: Sequence[Sequence[Dim]]) -> None:
    """A product may begin inside runs of another dimension, but no axis of it is then inside another one of it."""
    for part in (part for dims in params for dim in dims for part in resolve(dim)):
        for atom in part:
            parent = parent_of(atom)
            if parent in part and any(outer not in part for outer in outer_axes(parent)):
                keep(atom, ())


def _all_leaves(tensors: Sequence[Sequence[Dim]]) -> list[Atom]:
    return list(dict.fromkeys(leaf for dims in tensors for dim in dims for leaf in leaves(dim)))


def _snapshot(params: Sequence[Sequence[Dim]]) -> list[tuple[Atom, tuple[Atom, ...]]]:
    return [(atom, atom.inside) for atom in _all_leaves(params)]


def _longest_chain(atom: Atom) -> set[Atom]:
    """Axes that are nested in one another: one that the atom is inside of, and all that one is inside of."""
    around = set(outer_axes(atom))
    chains = [{outer, *outer_axes(outer)} for outer in around if outer.size > 1]
    return max((c for c in chains if c <= around), key=lambda c: (len(c), prod(b.size for b in c)), default=set())
