"""Which axes may be permuted differently in every block of another: the dims inside attention heads.

An axis D *inside* an axis H has one permutation per element of H. That makes sense in a tensor only where the element
of H is known: H is a dimension of the tensor too, and the same one wherever two tensors meet. What breaks this makes
D lose H, so that all blocks share one permutation: a smaller symmetry, never a wrong one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import prod

from .axes import Atom, Dim, forget, in_block, leaves, pin, resolve, size_of


def blocks_of(atom: Atom) -> tuple[Atom, ...]:
    """The atomic axes this one is inside of; none for a pinned one, which is the same everywhere."""
    if atom.pinned:
        return ()
    found = dict.fromkeys(leaf for block in atom.inside for leaf in leaves(((block,),)))
    return tuple(block for block in found if block is not atom)


def keep(atom: Atom, blocks: Iterable[Atom]) -> None:
    """Let the axis depend on these blocks only; instances in others turn out to be one and the same."""
    kept = set(blocks)
    atom.inside = tuple(block for block in blocks_of(atom) if block in kept)
    for block in [b for b in atom.instances if b not in kept]:
        forget(atom, block)


def settle(tensors: Sequence[Sequence[Dim]]) -> None:
    """After an operator: what was tied keeps the blocks all of it agrees on, and finds them in each of the tensors."""
    for atom in _all_leaves(tensors):
        agreed = [{leaf for block in claim for leaf in leaves(((block,),))} for claim in atom.claims]
        atom.claims.clear()
        if atom.inside:
            keep(atom, [block for block in blocks_of(atom) if all(block in claim for claim in agreed)])
    for dims in tensors:
        _ground(dims)


def _ground(dims: Sequence[Dim]) -> None:
    """Keep only blocks that are known wherever the axis is: in the same product, or else once, on another dimension."""
    resolved = [resolve(dim) for dim in dims]
    count = Counter(atom for dim in resolved for part in dim for atom in part)
    for here in resolved:
        around = {atom for dim in resolved if dim is not here and len(dim) == 1 for atom in dim[0] if count[atom] == 1}
        for part in here:
            for atom in part:
                if atom.inside:
                    keep(atom, [b for b in blocks_of(atom) if part.count(b) == 1 or b in around])


def renewed(dims: Sequence[Dim]) -> list[Dim]:
    """The same dimensions with new axes for copies: what one use of equal elements ties does not concern another."""
    new = {a: Atom(a.size, inside=a.inside, copies=True) for dim in dims for a in leaves(dim) if a.copies}
    if not new:
        return list(dims)
    for atom in new.values():
        atom.inside = tuple(new.get(block, block) for block in atom.inside)
    return [tuple(tuple(new.get(atom, atom) for atom in part) for part in resolve(dim)) for dim in dims]


def limit(dim: Dim, aligned: Sequence[Dim]) -> None:
    """Σ over ``dim``: both operands must be in the same block, so only blocks in ``dim`` or ``aligned`` count."""
    known = {leaf for d in (dim, *aligned) for leaf in leaves(d)}
    for leaf in leaves(dim):
        if leaf.inside:
            keep(leaf, [block for block in blocks_of(leaf) if block in known])


def tell_apart(dims: Sequence[Dim], blocks: Atom, index: int, why: str) -> list[Dim]:
    """Dimensions of block number ``index``, taken out of a tensor: what is inside ``blocks`` becomes its own axis."""
    pin(((blocks,),), why)
    for atom in {leaf for dim in dims for leaf in leaves(dim)}:
        _make_instances(atom, blocks)
    return [tuple(in_block(part, blocks, index) for part in resolve(dim)) for dim in dims]


def join(blocks: Atom, each: Sequence[Dim]) -> Dim:
    """The inverse: a dimension that is ``each[i]`` in block i."""
    first, *others = map(resolve, each)
    if all(first == other for other in others):
        return first
    whole = Atom(size_of(first), inside=(blocks,))
    whole.instances[blocks] = [Atom(whole.size, bound=dim) for dim in each]
    blocks.told.append(whole)
    return ((whole,),)


def _make_instances(atom: Atom, blocks: Atom) -> None:
    if blocks not in blocks_of(atom) or blocks in atom.instances:
        return
    around = [block for block in blocks_of(atom) if block is not blocks]
    for outer in around:
        _make_instances(outer, blocks)
    blocks.told.append(atom)
    atom.instances[blocks] = [
        Atom(
            atom.size,
            atom.pinned,
            feature=atom.feature,
            activations=list(atom.activations),
            inside=tuple(o.instances[blocks][i] if blocks in o.instances else o for o in around),
        )
        for i in range(blocks.size)
    ]


def parent_of(atom: Atom) -> Atom | None:
    """The innermost axis this one is nested in."""
    return max(blocks_of(atom), key=lambda block: len(blocks_of(block)), default=None)


def anchor(params: Sequence[Sequence[Dim]]) -> None:
    """At the end: nest every axis in one other, which every parameter that has the first has too."""
    before = None
    while before != (before := _snapshot(params)):
        settle(params)
        for atom in _all_leaves(params):
            for blocks in list(atom.instances):  # on another dimension than the blocks: not a concatenation of them
                forget(atom, blocks)
            keep(atom, _longest_chain(atom))


def _all_leaves(tensors: Sequence[Sequence[Dim]]) -> list[Atom]:
    return list(dict.fromkeys(leaf for dims in tensors for dim in dims for leaf in leaves(dim)))


def _snapshot(params: Sequence[Sequence[Dim]]) -> list[tuple[Atom, tuple[Atom, ...]]]:
    return [(atom, atom.inside) for atom in _all_leaves(params)]


def _longest_chain(atom: Atom) -> set[Atom]:
    """Blocks that are nested in one another: an axis of the atom's, and all that one is inside of."""
    blocks = set(blocks_of(atom))
    chains = [{block, *blocks_of(block)} for block in blocks if block.size > 1]
    return max((c for c in chains if c <= blocks), key=lambda c: (len(c), prod(b.size for b in c)), default=set())
