"""Parameters as the graph sees them: dense views between groups.

A :class:`Piece` is a parameter, or the part of one between parts of concatenated axes, on the grid of all factors of
its axes. A :class:`Block` is what an encoder makes of it: edges between two groups, or features along one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from torch import Tensor

from .spans import part_sizes, spans

if TYPE_CHECKING:
    from .spec import Factor, Param, Spec


@dataclass(frozen=True)
class Place:
    """Where a group stands in a parameter.

    Args:
        group: Name of the group.
        dim: The parameter's dimension.
        levels: Dimensions of the piece's grid that make up the group; two where it shares its runs with another.
        inner: Whether it stands inside a run that another factor gives.
    """

    group: str
    dim: int
    levels: tuple[int, ...]
    inner: bool = False


@dataclass(frozen=True)
class Piece:
    """One dense piece of a parameter.

    Args:
        param: Name of the parameter.
        places: Its groups, in order.
        grid: Sizes of all factors, dimension after dimension.
    """

    param: str
    places: tuple[Place, ...]
    grid: tuple[int, ...]
    _slices: tuple[tuple[int, int], ...] = field(repr=False)  # start and length on every dimension

    def unfold(self, tensor: Tensor) -> Tensor:
        """The piece of ``tensor`` on its grid, without copying; leading dimensions are kept."""
        lead = tensor.dim() - len(self._slices)
        return self.slot(tensor).reshape(tensor.shape[:lead] + self.grid)

    def slot(self, tensor: Tensor) -> Tensor:
        """The piece of ``tensor`` in the parameter's own dimensions; writing to it writes to ``tensor``."""
        lead = tensor.dim() - len(self._slices)
        for dim, (start, length) in enumerate(self._slices):
            tensor = tensor.narrow(lead + dim, start, length)
        return tensor

    def rows(self, tensor: Tensor, place: Place) -> Tensor:
        """All weights of each element of a group: ``[n, rest]``."""
        rest = [k for k in range(len(self.grid)) if k not in place.levels]
        return self.unfold(tensor).permute(*place.levels, *rest).reshape(prod(self.grid[k] for k in place.levels), -1)


@dataclass(frozen=True)
class Block:
    """A part of a parameter between two groups (edges), or along one (node features), as a dense view.

    Args:
        param: Name of the parameter.
        target: Group that is written to.
        source: Group that is read from; ``None`` for a one-axis parameter.
        taps: Grid of the positions in between, e.g. ``(3, 3)`` for a 3 × 3 kernel, ``()`` for a plain matrix.
        runs: Number of runs of target and source that only see each other (a convolution with groups); 1 if all do.
    """

    param: str
    target: str
    source: str | None
    taps: tuple[int, ...]
    runs: int = 1
    _piece: Piece = field(repr=False, kw_only=True)
    _order: tuple[tuple[int, ...], ...] = field(repr=False, kw_only=True)  # levels: (runs,) target, (source,) taps
    _mean: tuple[int, ...] = field(repr=False, kw_only=True)  # levels of further groups

    @property
    def numel(self) -> int:
        """How many numbers :meth:`view` has."""
        return prod(self._piece.grid[k] for part in self._order for k in part)

    def view(self, tensor: Tensor) -> Tensor:
        """The block of ``tensor``, without copying; where a parameter joins three groups, the mean over the third.

        Shapes:
            - **output:** ``[..., target, source, taps]``, or ``[..., target, taps]`` for a one-axis parameter, or
              ``[..., runs, target, source, taps]`` inside runs; leading dimensions (a batch of networks) are kept.
        """
        grid = self._piece.unfold(tensor)
        lead = grid.dim() - len(self._piece.grid)
        if self._mean:
            grid = grid.mean([lead + k for k in self._mean], keepdim=True)
        levels = [k for part in self._order for k in part]
        grid = grid.permute(*range(lead), *(lead + k for k in levels), *(lead + k for k in self._mean))
        sizes = [prod(self._piece.grid[k] for k in part) for part in self._order]
        return grid.reshape(*grid.shape[:lead], *sizes)


def pieces_of(spec: Spec, param: Param) -> Iterator[Piece]:
    """The dense pieces of a parameter: one per combination of the parts of its axes."""
    along = [list(spans(part_sizes(spec, axis))) for axis in param.axes]
    for choice in product(*(range(len(axis.parts)) for axis in param.axes)):
        parts = [axis.parts[k] for axis, k in zip(param.axes, choice, strict=True)]
        slices = tuple(found[k] for found, k in zip(along, choice, strict=True))
        factors = [(dim, f) for dim, part in enumerate(parts) for f in part]
        grid, places = _places(spec, factors)
        yield Piece(param.name, places, grid, slices)


def _places(spec: Spec, factors: list[tuple[int, Factor]]) -> tuple[tuple[int, ...], tuple[Place, ...]]:
    """Grid and places of factors ``(dimension, factor)``; one that gives others their run is two levels of the grid."""
    owners = {k: owner_of(spec, factors, k) for k, (_, f) in enumerate(factors) if is_inner(f)}
    grid: list[int] = []
    levels: list[tuple[int, ...]] = []
    for k, (_, factor) in enumerate(factors):
        size, runs = spec.factor_size(factor), None
        for inner, owner in owners.items():
            if owner == k:
                runs = spec.groups[spec.groups[group_of(factors[inner][1])].parent or ""].size
        sizes = [size] if runs is None or runs == size else [runs, size // runs]
        levels.append(tuple(range(len(grid), len(grid) + len(sizes))))
        grid += sizes
    places = []
    for k, (dim, factor) in enumerate(factors):
        if isinstance(factor, str):
            run = (levels[owners[k]][0],) if k in owners else ()
            places.append(Place(group_of(factor), dim, run + levels[k], k in owners))
    return tuple(grid), tuple(places)


def is_inner(factor: Factor) -> bool:
    """Whether a factor is a nested group inside a run that another factor gives: ``"/dims"``."""
    return isinstance(factor, str) and factor.startswith("/")


def group_of(factor: Factor) -> str:
    """The group a factor names."""
    return str(factor).removeprefix("/")


def owner_of(spec: Spec, factors: list[tuple[int, Factor]], k: int) -> int:
    """Which factor tells the run that factor k is inside of: one in the same dimension, or else the only one."""
    dim, factor = factors[k]
    parent = spec.groups[group_of(factor)].parent or ""
    known = [
        j for j, (_, f) in enumerate(factors) if isinstance(f, str) and not is_inner(f) and parent in spec.lineage(f)
    ]
    near = [j for j in known if factors[j][0] == dim] or known
    if len(near) != 1:
        raise ValueError(
            f"Spec: '{factor}' is inside a run of '{parent}', so exactly one other factor of the parameter must be "
            f"'{parent}' or nested in it (got {[f for _, f in factors]})"
        )
    return near[0]


def blocks_of(spec: Spec, param: Param) -> Iterator[Block]:
    """Edges and node features of one parameter."""
    for piece in pieces_of(spec, param):
        reads = [p for p in piece.places if p.dim == param.reads]
        writes = [p for p in piece.places if p.dim != param.reads] or reads
        if len({p.dim for p in piece.places}) > 1 and param.reads is None:
            writes, reads = writes[:1], writes[1:]
        pairs = list(product(writes, reads)) if reads and reads is not writes else [(p, None) for p in writes]
        for target, source in pairs:
            yield _block(piece, target, source)


def _block(piece: Piece, target: Place, source: Place | None) -> Block:
    read = source.levels if source is not None else ()
    shared = tuple(k for k in target.levels if k in read)
    grouped = {k for p in piece.places for k in p.levels}
    taps = tuple(k for k in range(len(piece.grid)) if k not in grouped)
    order = [shared] * bool(shared) + [tuple(k for k in levels if k not in shared) for levels in (target.levels, read)]
    if source is None:
        order.pop()
    return Block(
        piece.param,
        target.group,
        source.group if source is not None else None,
        tuple(piece.grid[k] for k in taps if piece.grid[k] != 1),
        prod(piece.grid[k] for k in shared),
        _piece=piece,
        _order=(*order, taps),
        _mean=tuple(k for k in sorted(grouped) if k not in target.levels and k not in read),
    )
