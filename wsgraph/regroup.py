"""Reshape and cut dimensions: axes are regrouped, split into runs, or cut into parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod

from .axes import Atom, Dim, Part, fixed, free, part_size, pin, resolve, size_of, split, tie
from .nesting import join
from .spans import spans

RESHAPED = "split by a reshape"


def reshape(dims: list[Dim], shape: list[int]) -> list[Dim]:
    """Row-major reshape. Axes are regrouped, and split where they are cut; what cannot be split evenly is pinned.

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
        if (filled := _fill(flat, new)) is not None:
            return filled
    if len(old) == 1 and len(old[0]) == new[0] and len({part_size(part) for part in old[0]}) == 1:
        return _stacked(old[0], new[1:])
    for dim in old:
        pin(dim, RESHAPED)
    return [fixed(size, RESHAPED) for size in new]


def _stacked(parts: Dim, sizes: list[int]) -> list[Dim]:
    """A concatenation of equal parts as (parts, …): every part has dimensions of its own, as if they were stacked."""
    entries = Atom(len(parts), pinned="concatenated")
    rows = [_regroup([(part,)], sizes) for part in parts]
    return [((entries,),), *(join(entries, each) for each in zip(*rows, strict=True))]


def _fill(flat: list[Atom], sizes: list[int]) -> list[Dim] | None:
    """Distribute axes over dimensions of the given sizes, splitting some; ``None`` if that cannot be done evenly."""
    queue = [atom for atom in flat if atom.size > 1]
    ones = [atom for atom in flat if atom.size == 1]
    out: list[Dim] = []
    for size in sizes:
        part: Part = ()
        while (missing := size // part_size(part)) > 1:
            atom = queue.pop(0)
            if atom.size > missing and atom.size % missing == 0:
                atom, rest = split(atom, [missing, atom.size // missing])
                queue.insert(0, rest)
            elif missing % atom.size:
                return None
            part += (atom,)
        if not part:
            part = (ones.pop(0) if ones else Atom(1),)
        out.append((part,))
    return out


def into_runs(dim: Dim, length: int, why: str) -> list[tuple[Part, Part]]:
    """Split every part of a dimension into (runs, elements of a run of ``length``), nested.

    Where a run would reach over the end of a part, or an axis cannot be split evenly, ``dim`` is pinned and nothing
    is returned.
    """
    done = [
        _fill(list(part), [part_size(part) // length, length]) if part_size(part) % length == 0 else None
        for part in resolve(dim)
    ]
    if any(pair is None for pair in done):
        pin(dim, why)
        return []
    return [(runs[0], elements[0]) for runs, elements in (pair for pair in done if pair is not None)]


def cut(dim: Dim, sizes: Sequence[int]) -> list[Dim]:
    """A dimension in consecutive pieces of the given sizes, the inverse of a concatenation."""
    for end in accumulate(sizes):
        _cut_at(resolve(dim), end)
    pieces: list[Dim] = []
    parts = list(resolve(dim))
    for size in sizes:
        piece: Dim = ()
        while size_of(piece) < size and part_size(parts[0]) <= size - size_of(piece):
            piece += (parts.pop(0),)
        if (missing := size - size_of(piece)) > 0:  # a pinned part: its pieces are pinned axes of their own
            part = parts.pop(0)
            piece += fixed(missing, part[0].pinned)
            parts[:0] = fixed(part_size(part) - missing, part[0].pinned)
        pieces.append(piece)
    return pieces


def _cut_at(dim: Dim, end: int) -> None:
    """Cut the part that reaches over position ``end``, or pin it where that is not possible."""
    for part, (start, size) in zip(dim, spans(map(part_size, dim)), strict=True):
        if start < end < start + size:
            first, inner = next(((a, part[k + 1 :]) for k, a in enumerate(part) if a.size > 1))
            at, rest = divmod(end - start, part_size(inner))
            if rest or first.pinned:
                pin((part,), first.pinned or "sliced")
            else:
                ends = tuple((Atom(n, inside=first.inside),) for n in (at, first.size - at))
                tie(((first,),), ends)
            return
