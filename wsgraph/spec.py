"""What a network's permutation symmetry is: groups of neurons, and which group every parameter axis belongs to.

A :class:`Spec` is plain, frozen data. :func:`wsgraph.trace` finds one, or write it by hand, or read it from JSON::

    Spec(
        groups=[Group("input", 784, why="network input"), Group("fc1", 128), Group("output", 10, why="network output")],
        params=[Param("fc1.weight", ("fc1", "input"), "weight", reads=1), Param("fc1.bias", ("fc1",), "bias"), ...],
    )
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

from torch import Tensor

from . import plain
from .blocks import Block, Piece, blocks_of, group_of, is_inner, pieces_of
from .tables import as_html, as_text

Factor: TypeAlias = str | int
"""A group's name, or the number of positions (kernel taps, pixels after Flatten) that never move.

``"/dims"`` is the nested group ``dims`` inside one run: another factor of the parameter, its parent or a group nested
in that, tells which. The weight of a convolution with groups is ``("outputs", "/inputs", 3, 3)``.
"""
Product: TypeAlias = tuple[Factor, ...]
"""Row-major product: ``("conv5", 7, 7)`` is what Flatten leaves of 7 × 7 maps."""

_NOT_IN_TENSORS = ("activation", "shape", "role", "block")
"""Fields of groups and parameters that a Spec read off a state dict can only guess."""


@dataclass(frozen=True)
class Group:
    """Neurons that are permuted together.

    Args:
        name: Unique name, usually that of the first layer that writes to it.
        size: Number of elements.
        why: Why it is pinned (never moves); empty for a free group.
        activation: Name of the pointwise function that follows, ``"identity"`` if none.
        shape: Grid the elements of a pinned group lie on, e.g. ``(3, 32, 32)`` for a flattened image.
        parent: Name of the group this one is nested in: its elements come in ``parent.size`` equal runs; a
            permutation moves whole runs as the parent moves, and elements inside each run.
    """

    name: str
    size: int
    why: str = ""
    activation: str = "identity"
    shape: tuple[int, ...] = ()
    parent: str | None = None

    @property
    def pinned(self) -> bool:
        """Whether the group never moves."""
        return bool(self.why)


@dataclass(frozen=True)
class Axis:
    """One dimension of one parameter: products laid one after the other (several after a concatenation).

    >>> print(Axis((("conv", 4, 4),)), Axis((("a",), ("b",))))
    conv·4·4 a+b
    """

    parts: tuple[Product, ...]

    def __str__(self) -> str:
        return "+".join("·".join(map(str, part)) for part in self.parts)

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups on this axis, in order."""
        return tuple(group_of(f) for part in self.parts for f in part if isinstance(f, str))


@dataclass(frozen=True)
class Param:
    """One entry of the state dict.

    Args:
        name: Its key.
        axes: One :class:`Axis` per dimension. A group's name or a number of positions may stand for an axis of its own,
            a tuple of them for a product.
        role: ``weight``, ``bias``, ``norm_scale``, ``norm_shift``, ``mean``, ``variance``, ``slope`` or ``other``.
        reads: The dimension along which the parameter reads its input (contracted by the matrix product); ``None`` for
            parameters that connect nothing.
        block: For a one-axis parameter, the weight whose output (or, in front of a layer, input) it acts on.
    """

    name: str
    axes: tuple[Axis, ...]
    role: str = "other"
    reads: int | None = None
    block: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(map(as_axis, self.axes)))


@dataclass(frozen=True)
class Scaling:
    """A positive scaling of a group's elements that leaves the function unchanged (ReLU networks).

    Element i of ``group`` is scaled by cᵢ > 0: the slices of ``up`` are multiplied by cᵢ, those of ``down`` divided.

    Args:
        group: The scaled group.
        up: Pairs (parameter, dimension) that write the group's values.
        down: Pairs (parameter, dimension) that read them.
    """

    group: str
    up: tuple[tuple[str, int], ...]
    down: tuple[tuple[str, int], ...]


@dataclass(frozen=True, init=False)
class Spec:
    """The symmetry of an architecture.

    Args:
        groups: All groups; ``spec.groups[name]`` finds one.
        params: All entries of the state dict, in order of execution; ``spec.params[name]`` finds one.
        scalings: Positive scalings that preserve the function.
    """

    groups: Mapping[str, Group]
    params: Mapping[str, Param]
    scalings: tuple[Scaling, ...]

    def __init__(self, groups: Iterable[Group], params: Iterable[Param], scalings: Iterable[Scaling] = ()) -> None:
        object.__setattr__(self, "groups", _by_name(groups))
        object.__setattr__(self, "params", _by_name(params))
        object.__setattr__(self, "scalings", tuple(scalings))
        self._validate()

    def _validate(self) -> None:
        for group in self.groups.values():
            if group.size < 1:
                raise ValueError(f"Spec: group '{group.name}' has {group.size} elements, expected at least 1")
            if group.parent is not None:
                self._validate_parent(group)
        for param in self.params.values():
            for unknown in {g for axis in param.axes for g in axis.groups} - set(self.groups):
                raise ValueError(
                    f"Spec: '{param.name}' has an axis of group '{unknown}', expected one of {list(self.groups)}"
                )
            if any(is_inner(f) for axis in param.axes for part in axis.parts for f in part):
                list(pieces_of(self, param))  # raises where a run cannot be told

    def _validate_parent(self, group: Group) -> None:
        parent = self.groups.get(group.parent or "")
        if parent is None or group.size % parent.size:
            raise ValueError(
                f"Spec: group '{group.name}' ({group.size} elements) is nested in '{group.parent}', which must "
                f"be a group whose size divides it (got {parent.size if parent else 'no such group'})"
            )
        if group.pinned and not parent.pinned:
            raise ValueError(f"Spec: group '{group.name}' is pinned, so '{parent.name}', which moves it, must be too")
        seen = {group.name}
        while parent is not None:
            if parent.name in seen:
                raise ValueError(f"Spec: group '{group.name}' is nested in itself")
            seen.add(parent.name)
            parent = self.groups.get(parent.parent or "")

    def factor_size(self, factor: Factor) -> int:
        """Number of elements along a factor: of the whole group, or of one of its runs."""
        if isinstance(factor, int):
            return factor
        group = self.groups[group_of(factor)]
        if not is_inner(factor):
            return group.size
        if group.parent is None:
            raise ValueError(f"Spec: '{factor}' is inside a run, so group '{group.name}' must be nested in another")
        return group.size // self.groups[group.parent].size

    def lineage(self, name: str) -> Iterator[str]:
        """The group and all it is nested in, from the inside out."""
        current: str | None = name
        while current is not None:
            yield current
            current = self.groups[current].parent

    def axis_size(self, axis: Axis) -> int:
        return sum(prod(map(self.factor_size, part)) for part in axis.parts)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of the parameter ``name``."""
        return tuple(self.axis_size(axis) for axis in self.params[name].axes)

    @property
    def free(self) -> tuple[Group, ...]:
        """The groups that may be permuted, in more than one way."""
        return tuple(g for g in self.groups.values() if not g.pinned and g.size > 1)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Edges and node features of the graph, in order of execution (a concatenated axis gives several)."""
        return tuple(block for param in self.params.values() for block in blocks_of(self, param))

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """All parameters as dense pieces on the grid of their groups, in order of execution."""
        return tuple(piece for param in self.params.values() for piece in pieces_of(self, param))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of groups and parameters: equal for networks of one architecture."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def check(self, tensors: Mapping[str, Tensor]) -> None:
        """Raise if a state dict does not belong to this architecture."""
        missing, extra = [k for k in self.params if k not in tensors], [k for k in tensors if k not in self.params]
        if missing or extra:
            raise KeyError(
                f"state dict does not fit the Spec: missing keys {missing or 'none'}, unexpected keys "
                f"{extra or 'none'}. Pass the state dict of the traced architecture, or trace its own module."
            )
        for name, tensor in tensors.items():
            if not isinstance(tensor, Tensor):
                raise TypeError(f"'{name}' is of type {type(tensor).__name__}, expected a tensor")
            if tuple(tensor.shape) != self.shape(name):
                raise ValueError(f"'{name}' has shape {tuple(tensor.shape)}, but the Spec expects {self.shape(name)}")

    def require_same(self, other: Spec, what: str = "networks") -> None:
        """Raise if ``other`` is another architecture, naming the first difference.

        Activations that a Spec does not know, because it was read off a state dict, are no difference.
        """
        if self.fingerprint == other.fingerprint:
            return
        for name in dict.fromkeys([*self.params, *other.params]):
            if name not in self.params or name not in other.params:
                where = "first" if name in self.params else "second"
                raise ValueError(
                    f"the two {what} have different architectures: only the {where} has a parameter '{name}'"
                )
            if self.shape(name) != other.shape(name):
                raise ValueError(
                    f"the two {what} have different architectures: '{name}' is {self.shape(name)} in the first and "
                    f"{other.shape(name)} in the second"
                )
        if differing := self._differing(other):
            listed = "\n".join(f"- {line}" for line in differing)
            raise ValueError(f"the two {what} have equal shapes but different symmetries:\n{listed}")

    def _differing(self, other: Spec) -> list[str]:
        """What groups and parameters of equal shapes do not have in common, one line each."""
        read_off = any(g.activation == "unknown" for spec in (self, other) for g in spec.groups.values())
        skipped = _NOT_IN_TENSORS if read_off else ()
        out = []
        for mine, theirs in ((self.groups, other.groups), (self.params, other.params)):
            for name in dict.fromkeys([*mine, *theirs]):
                if name not in mine or name not in theirs:
                    out.append(f"only the {'first' if name in mine else 'second'} has a group '{name}'")
                    continue
                for key in (f.name for f in fields(mine[name]) if f.name not in skipped):
                    x, y = (_shown(getattr(items[name], key)) for items in (mine, theirs))
                    if x != y:
                        out.append(f"'{name}' has {key} {x!r} in the first and {y!r} in the second")
        return out or ["their layers come in another order"] * (self.blocks != other.blocks)

    def to_json(self) -> str:
        """Serialise; :meth:`from_json` is the inverse."""
        return json.dumps(
            {
                "groups": [asdict(g) for g in self.groups.values()],
                "params": [asdict(p) for p in self.params.values()],
                "scalings": [asdict(s) for s in self.scalings],
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> Spec:
        """Read what :meth:`to_json` wrote."""
        try:
            found = plain.build(_Plain, plain.parse(text, "it"))
        except ValueError as error:
            raise ValueError(f"not a Spec in JSON ({error}); expected what Spec.to_json wrote") from error
        return cls(found.groups, found.params, found.scalings)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __deepcopy__(self, memo: object) -> Spec:
        return self  # frozen

    def __repr__(self) -> str:
        count = len(self.params)
        groups = f"{len(self.groups)} group{'s' * (len(self.groups) != 1)}"
        return f"Spec({groups}, {len(self.free)} free, {count} parameter{'s' * (count != 1)})"

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def as_axis(value: Axis | Factor | Product) -> Axis:
    """An axis from its shorthand: a group's name, a number of positions, or a tuple of them."""
    if isinstance(value, Axis):
        return value
    return Axis((value if isinstance(value, tuple) else (value,),))


def _shown(value: Any) -> Any:
    return " × ".join(map(str, value)) if isinstance(value, tuple) else value


def _by_name(items: Iterable[Any]) -> Mapping[str, Any]:
    items = tuple(items)
    named = {item.name: item for item in items}
    if len(named) != len(items):
        raise ValueError(f"Spec: a name is used twice in {[item.name for item in items]}")
    return named


@dataclass(frozen=True)
class _Plain:
    """A Spec as JSON holds it."""

    groups: tuple[Group, ...]
    params: tuple[Param, ...]
    scalings: tuple[Scaling, ...]
