"""Permute parameters in which a nested group stands inside runs that another factor gives.

The weight of a convolution with groups is [runs × outputs, inputs]: row (g, o) reads the inputs of run g, so that the
permutation of its columns is another one in every run of rows.

    W'[(g, o), i] = W[outputs[(g, o)], inputs[(g, i)] mod length]
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from string import ascii_letters

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from .blocks import Piece, Place


def permute_piece(piece: Piece, grid: Tensor, maps: Mapping[str, Tensor]) -> Tensor:
    """The permuted piece, both on its grid. Hard maps index; soft ones mix, differentiably."""
    if any(maps[p.group].dim() == 2 for p in piece.places if p.group in maps):
        return _mixed(piece, grid, maps)
    source = [_along(torch.arange(n, device=grid.device), [k], grid.dim()) for k, n in enumerate(piece.grid)]
    for place in piece.places:
        if place.group in maps:
            position = maps[place.group].to(grid.device).view([piece.grid[k] for k in place.levels])
            for level in reversed(place.levels):
                source[level] = _along(position % piece.grid[level], place.levels, grid.dim())
                position = position // piece.grid[level]
    return grid[tuple(source)]


def _along(index: Tensor, levels: list[int] | tuple[int, ...], total: int) -> Tensor:
    """``index``, whose dimensions are some levels of the grid, shaped for broadcasting over all of it."""
    order = sorted(range(len(levels)), key=lambda k: levels[k])
    shape = [1] * total
    for k, level in enumerate(levels):
        shape[level] = index.shape[k]
    return index.permute(order).reshape(shape)


def _mixed(piece: Piece, grid: Tensor, maps: Mapping[str, Tensor]) -> Tensor:
    """Σ over sources of all maps' entries times the piece, with runs of inner groups given by their owners."""
    new, old = ascii_letters[:26], ascii_letters[26:]
    moved = {k for place in piece.places if place.group in maps for k in place.levels}
    operands, terms = [grid], ["".join((old if k in moved else new)[k] for k in range(grid.dim()))]
    for place in piece.places:
        if place.group in maps:
            operands.append(_matrix(piece, place, maps[place.group]).to(grid))
            terms.append("".join(new[k] for k in place.levels) + "".join(old[k] for k in place.levels))
    return torch.einsum(f"{','.join(terms)}->{new[: grid.dim()]}", *operands)


def _matrix(piece: Piece, place: Place, value: Tensor) -> Tensor:
    """A map on the levels of its place; inside a run that is given, rows of every pair of runs sum to 1."""
    sizes = [piece.grid[k] for k in place.levels]
    matrix = value if value.dim() == 2 else one_hot(value, prod(sizes)).to(torch.get_default_dtype())
    matrix = matrix.reshape(*sizes, *sizes)
    return matrix / matrix.sum(-1, keepdim=True).clamp_min(1e-12) if place.inner else matrix
