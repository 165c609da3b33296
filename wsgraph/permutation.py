"""Elements of a network's symmetry group: permute its neurons without changing its function.

Directions, here and everywhere: a hard permutation of a group is an index tensor ``idx``; its matrix has
``P[i, idx[i]] = 1``; applying it is ``W[idx]`` on each axis of the group. ``(p @ q).apply(x) == p.apply(q.apply(x))``
and ``p.inverse()`` is Pᵀ.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

import torch
from torch import Tensor, nn

from .blocks import is_inner, pieces_of
from .checkpoints import AnyPath, opened
from .files import load_tensors, save_tensors
from .modules import tensors_of, with_tensors
from .runs import permute_piece
from .spans import part_sizes, parts_along, spans
from .spec import Axis, Group, Product, Spec
from .ties import map_tied

if TYPE_CHECKING:
    from .graph import WeightGraph

M = TypeVar("M", bound=nn.Module)
STOCHASTIC = 1e-2
"""How far sums of rows and columns of a soft map may be away from 1."""
_Indices: TypeAlias = dict[tuple[Axis, torch.device], Tensor]
"""Flat indices of whole axes, so that each is made once for all parameters that have it."""


class Permutation:
    """One permutation per group.

    Args:
        spec: The architecture.
        maps: Group name → index tensor ``[n]`` (hard) or doubly stochastic matrix ``[n, n]`` (soft). Groups left out
            are not permuted; pinned groups must be left out or identity.

    Example:
        >>> from wsgraph import trace
        >>> net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> p = Permutation(trace(net), {"0": torch.tensor([2, 0, 1])})
        >>> torch.equal(p.apply(net)[0].bias, net[0].bias[[2, 0, 1]])
        True
        >>> p @ p.inverse()
        Permutation(1 group, 0 of 3 neurons moved)
    """

    def __init__(self, spec: Spec, maps: Mapping[str, Tensor]) -> None:
        self._hold(spec, maps)
        for name, value in self.maps.items():
            if value.dim() == 2 and not value.is_meta:
                _check_finite(name, value.detach())
                _check_stochastic(name, value.detach())

    def _hold(self, spec: Spec, maps: Mapping[str, Tensor]) -> None:
        self.spec = spec
        self.maps: dict[str, Tensor] = {k: v.long() if _is_index(v) else v for k, v in maps.items()}
        for name, value in self.maps.items():
            _check(spec, name, value)
        for group in spec.groups.values():
            if group.parent is not None and {group.name, group.parent} & self.maps.keys():
                _check_nested(spec, group, self.maps)

    @classmethod
    def nearly(cls, spec: Spec, maps: Mapping[str, Tensor]) -> Permutation:
        """With soft maps that are doubly stochastic only nearly, as after a few Sinkhorn iterations.

        Their values are not looked at, so it may be called under ``torch.vmap``.
        """
        new = cls.__new__(cls)
        new._hold(spec, maps)
        return new

    @classmethod
    def identity(cls, spec: Spec, device: torch.device | str | None = None) -> Permutation:
        """The permutation that moves nothing."""
        return cls(spec, {g.name: torch.arange(g.size, device=device) for g in spec.free})

    @classmethod
    def random(cls, spec: Spec, generator: torch.Generator | None = None) -> Permutation:
        """Uniform over the whole group; nested groups move with their parents and inside them."""
        maps: dict[str, Tensor] = {}
        device = generator.device if generator is not None else torch.device("cpu")

        def draw(n: int) -> Tensor:
            return torch.randperm(n, generator=generator, device=device)

        for group in sorted(spec.free, key=lambda g: _depth(spec, g.name)):
            if group.parent is None:
                maps[group.name] = draw(group.size)
            else:
                runs = spec.groups[group.parent].size
                length = group.size // runs
                parent = maps.get(group.parent, torch.arange(runs, device=device))
                inner = torch.stack([draw(length) for _ in range(runs)])
                maps[group.name] = (parent[:, None] * length + inner).flatten()
        return cls(spec, {g.name: maps[g.name] for g in spec.free})

    @property
    def hard(self) -> bool:
        """Whether every map is an index tensor."""
        return all(value.dim() == 1 for value in self.maps.values())

    def matrix(self, name: str) -> Tensor:
        """The matrix P of one group, ``P[i, idx[i]] = 1``."""
        value = self.maps.get(name)
        if value is None:
            value = torch.arange(self.spec.groups[name].size)
        return value if value.dim() == 2 else nn.functional.one_hot(value, value.numel()).to(torch.get_default_dtype())

    def inverse(self) -> Permutation:
        """Pᵀ in every group."""
        return self.nearly(self.spec, {k: v.T if v.dim() == 2 else torch.argsort(v) for k, v in self.maps.items()})

    def __matmul__(self, other: Permutation) -> Permutation:
        """First ``other``, then ``self``: the matrix product in every group."""
        self.spec.require_same(other.spec, "permutations")
        return self.nearly(
            self.spec,
            {k: self._compose(other, k) for k in dict.fromkeys([*self.maps, *other.maps])},
        )

    def _compose(self, other: Permutation, name: str) -> Tensor:
        p, q = self.maps.get(name), other.maps.get(name)
        if p is None or q is None:
            return q if p is None else p  # type: ignore[return-value]
        if p.dim() == q.dim() == 1:
            return q[p]
        if p.dim() == 1:
            return q[p]  # P Q with hard P selects rows
        return p[:, torch.argsort(q)] if q.dim() == 1 else p @ q

    @overload
    def apply(self, network: M) -> M: ...
    @overload
    def apply(self, network: WeightGraph) -> WeightGraph: ...
    @overload
    def apply(self, network: Mapping[str, Tensor]) -> dict[str, Tensor]: ...
    @overload
    def apply(self, network: AnyPath) -> Any: ...

    def apply(self, network: Any) -> nn.Module | WeightGraph | dict[str, Tensor]:
        """The permuted network, of the same kind: a module (a new one), a WeightGraph or a state dict, a file's too.

        Hard permutations index, exactly; soft ones multiply, differentiably in the matrices and the weights. Norm
        statistics, buffers, tied and reused parameters move along; entries of no group stay as they are. A module
        cannot hold the graph of a soft permutation: use a state dict or a WeightGraph there.
        """
        network = opened(network)
        if isinstance(network, nn.Module):
            if not self.hard:
                raise TypeError(
                    "a module cannot hold softly permuted weights; apply to module.state_dict() or to_graph(module)"
                )
            with torch.no_grad():
                return with_tensors(network, self._tensors(tensors_of(network)))
        if isinstance(network, Mapping):
            return self._tensors(network)
        self.spec.require_same(network.spec)
        return network.replace(self._tensors(network.tensors))

    def _tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        self.spec.check(tensors)
        index: _Indices = {}
        return map_tied(
            tensors, lambda name, t: self._permute(name, t, index), kind=lambda name: self.spec.params[name].axes
        )

    def permute(self, name: str, tensor: Tensor) -> Tensor:
        """One permuted entry of a state dict."""
        return self._permute(name, tensor, {})

    def _permute(self, name: str, tensor: Tensor, index: _Indices) -> Tensor:
        axes, new = self.spec.params[name].axes, tensor
        if any(is_inner(f) for axis in axes for part in axis.parts for f in part):
            return self._permute_pieces(name, tensor)
        for dim, axis in enumerate(axes):
            maps = [self.maps[g] for g in axis.groups if g in self.maps]
            if not maps:
                continue
            if any(m.dim() == 2 for m in maps):
                new = self._mix(new, dim, axis)
            else:
                key = (axis, tensor.device)
                if key not in index:
                    index[key] = self._index(axis).to(tensor.device)
                new = _select(new, dim, index[key])
        return new.clone() if new is tensor else new

    def _permute_pieces(self, name: str, tensor: Tensor) -> Tensor:
        """Where a permutation along one axis depends on the place on another; see :mod:`wsgraph.runs`."""
        new = torch.empty_like(tensor)
        for piece in pieces_of(self.spec, self.spec.params[name]):
            permuted = permute_piece(piece, piece.unfold(tensor), self.maps)
            piece.slot(new).copy_(permuted.reshape(piece.slot(new).shape))
        return new

    def _index(self, axis: Axis) -> Tensor:
        """Flat index of a whole axis: parts one after the other, row-major inside each."""
        pieces = []
        for part, (start, _) in zip(axis.parts, spans(part_sizes(self.spec, axis)), strict=True):
            flat = torch.zeros((), dtype=torch.long)
            for factor in part:
                n = self.spec.factor_size(factor)
                own = self.maps[factor].cpu() if factor in self.maps else torch.arange(n)
                flat = (flat[..., None] * n + own).flatten()
            pieces.append(start + flat)
        return torch.cat(pieces)

    def _mix(self, tensor: Tensor, dim: int, axis: Axis) -> Tensor:
        return torch.cat([self._mix_part(x, dim, part) for part, x in parts_along(self.spec, axis, tensor, dim)], dim)

    def _mix_part(self, tensor: Tensor, dim: int, part: Product) -> Tensor:
        for k, factor in enumerate(part):
            if factor not in self.maps:
                continue
            value = self.maps[factor]
            if value.dim() == 1:
                tensor = tensor.index_select(dim + k, value.to(tensor.device))
            else:
                tensor = torch.tensordot(value.to(tensor.dtype), tensor, dims=([1], [dim + k])).movedim(0, dim + k)
        return tensor.flatten(dim, dim + len(part) - 1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a safetensors file, with the fingerprint of the architecture."""
        save_tensors(self.maps, path, {"kind": "wsgraph.Permutation", "spec": self.spec.fingerprint})

    @classmethod
    def load(cls, path: str | os.PathLike[str], spec: Spec) -> Permutation:
        """Read what :meth:`save` wrote, for the same architecture."""
        maps, meta = load_tensors(path, kind="wsgraph.Permutation")
        if meta.get("spec") != spec.fingerprint or not maps.keys() <= spec.groups.keys():
            raise ValueError(
                f"{Path(path)} holds a permutation of another architecture (fingerprint {meta.get('spec')}, expected "
                f"{spec.fingerprint}); its groups are { {k: max(v.shape, default=0) for k, v in maps.items()} }"
            )
        for name, value in maps.items():
            _check_finite(name, value)
        return cls.nearly(spec, maps)

    def to(self, device: torch.device | str) -> Permutation:
        """The same permutation with its maps on ``device``."""
        return self.nearly(self.spec, {k: v.to(device) for k, v in self.maps.items()})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Permutation) or self.spec.fingerprint != other.spec.fingerprint:
            return NotImplemented if not isinstance(other, Permutation) else False
        return all(
            torch.equal(self.matrix(g.name), other.matrix(g.name).to(self.matrix(g.name).device))
            for g in self.spec.free
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        moved = sum(int((v != torch.arange(len(v), device=v.device)).sum()) for v in self.maps.values() if v.dim() == 1)
        kind = f"{moved} of {sum(v.shape[0] for v in self.maps.values())} neurons moved" if self.hard else "soft"
        return f"Permutation({len(self.maps)} group{'s' * (len(self.maps) != 1)}, {kind})"


def _depth(spec: Spec, name: str) -> int:
    parent = spec.groups[name].parent
    return 0 if parent is None else 1 + _depth(spec, parent)


def _check(spec: Spec, name: str, value: Tensor) -> None:
    if name not in spec.groups:
        raise KeyError(f"Permutation: no group '{name}', expected one of {[g.name for g in spec.free]}")
    group = spec.groups[name]
    if value.dim() not in (1, 2) or any(s != group.size for s in value.shape):
        raise ValueError(
            f"Permutation: group '{name}' has {group.size} elements, expected an index tensor [{group.size}] or a "
            f"matrix [{group.size}, {group.size}], got {tuple(value.shape)}"
        )
    if value.is_meta:
        return
    still = torch.arange(group.size, device=value.device)
    if value.dim() == 1 and not (_is_index(value) and torch.equal(value.sort().values, still)):
        raise ValueError(f"Permutation: the index tensor of group '{name}' is not a permutation of 0…{group.size - 1}")
    if group.pinned and not torch.equal(value, still if value.dim() == 1 else torch.eye(group.size).to(value)):
        raise ValueError(f"Permutation: group '{name}' is pinned ({group.why}) and cannot be permuted")


def _check_finite(name: str, value: Tensor) -> None:
    if bad := int((~torch.isfinite(value)).sum()):
        raise ValueError(
            f"Permutation: the matrix of group '{name}' holds {bad} NaN or infinite values of {value.numel()}, "
            "expected a doubly stochastic one; look for what made them, such as a temperature of 0"
        )


def _check_stochastic(name: str, value: Tensor) -> None:
    """No entry may be negative, and every row and column must sum to 1."""
    wide = value.double()
    least, off = float(wide.min()), max(float((wide.sum(dim) - 1).abs().max()) for dim in (0, 1))
    if off > STOCHASTIC or least < -STOCHASTIC:
        raise ValueError(
            f"Permutation: the matrix of group '{name}' is not doubly stochastic: its least entry is {least:.2g} "
            f"(expected 0 or more), and the sum of a row or column is off 1 by {off:.2g}. Normalise rows and columns "
            "in turns, as Sinkhorn does, or pass it to Permutation.nearly(spec, maps) if coming close is enough"
        )


def _select(tensor: Tensor, dim: int, index: Tensor) -> Tensor:
    """Entries along a dimension; single elements (the columns of a matrix) are gathered, several times as fast."""
    if dim == 0 or tensor.shape[dim + 1 :].numel() != 1:
        return tensor.index_select(dim, index)
    rows = tensor.flatten(dim)  # what is gathered must be the last dimension, or the cache is missed at every element
    return rows.gather(dim, index.expand(rows.shape)).view(tensor.shape)


def _is_index(value: Tensor) -> bool:
    return value.dim() == 1 and not value.is_floating_point()


def _check_nested(spec: Spec, group: Group, maps: Mapping[str, Tensor]) -> None:
    """Runs of a nested group must move as its parent does (hard permutations only)."""
    assert group.parent is not None
    runs = spec.groups[group.parent].size
    device = next(iter(maps.values())).device
    value, parent = (
        maps[name] if name in maps else torch.arange(spec.groups[name].size, device=device)
        for name in (group.name, group.parent)
    )
    if value.dim() == 2 or parent.dim() == 2 or value.is_meta or parent.is_meta:
        return
    moved = value.view(runs, -1) // (group.size // runs)
    if not torch.equal(moved, parent.to(value.device)[:, None].expand_as(moved)):
        raise ValueError(
            f"Permutation: group '{group.name}' must move with the group it is nested in, '{group.parent}'"
        )
