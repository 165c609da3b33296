"""Find the positive scalings that preserve a network's function (a second, smaller walk over the traced graph).

A ReLU passes a positive factor through: scaling what writes to a neuron by c and what reads from it by 1/c changes
nothing. Each value along the graph carries, per group, a *class*: the writers and readers that must share a factor.
Layers and affine norms start classes, homogeneous operators pass them on, additions merge them; whatever else touches
a class spoils it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor, fx

from . import ops
from .blocks import is_inner
from .spec import Scaling, Spec

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from .naming import GroupNames

HOMOGENEOUS = {
    "relu", "leaky_relu", "prelu", "neg", "dropout", "feature_dropout", "clone", "contiguous", "_to_copy", "to",
    "detach", "alias", "view", "reshape", "_unsafe_view", "flatten", "unflatten", "permute", "transpose", "t",
    "unsqueeze", "squeeze", "expand", "mean", "sum", "amax", "amin", "slice", "select", "constant_pad_nd",
    "upsample_nearest1d", "upsample_nearest2d", "upsample_bilinear2d", "upsample_linear1d",
    *(f"{p}{kind}_pool{d}d{s}" for p in ("", "_", "adaptive_", "_adaptive_") for kind in ("max", "avg") for d in "123"
      for s in ("", "_with_indices")),
}  # fmt: skip
LAYERS = {"linear": 1, "conv1d": 1, "conv2d": 1, "conv3d": 1, "addmm": 0, "mm": 0}
"""Operators that multiply by a weight, and the dimension along which that weight reads."""
NORMS = {"batch_norm", "instance_norm", "_native_batch_norm_legit_no_training", "layer_norm", "group_norm", "rms_norm"}

Slot = tuple[str, int]


@dataclass(eq=False)
class _Class:
    """Writers and readers that must be scaled by one factor per element."""

    group: str
    up: set[Slot] = field(default_factory=set)
    down: set[Slot] = field(default_factory=set)
    spoiled: bool = False
    merged: _Class | None = None

    def root(self) -> _Class:
        return self if self.merged is None else self.merged.root()

    def merge(self, other: _Class) -> None:
        a, b = self.root(), other.root()
        if a is not b:
            b.merged = a
            a.up, a.down, a.spoiled = a.up | b.up, a.down | b.down, a.spoiled or b.spoiled


Classes = dict[str, _Class]


class _Walk:
    def __init__(self, env: Mapping[fx.Node, Any], names: GroupNames, spec: Spec) -> None:
        self.env, self.names, self.spec = env, names, spec
        self.free = {g.name for g in spec.free}
        self.classes: dict[fx.Node, Classes] = {}
        self.by_slot: dict[tuple[str, Slot], _Class] = {}
        self.frozen: set[str] = set()  # parameters used in a way that fixes their scale

    def visit(self, node: fx.Node) -> None:
        name = ops.name_of(node.target)
        if node.target is operator.getitem:
            self.classes[node] = self.classes.get(node.args[0], {})  # type: ignore[arg-type]
        elif name in LAYERS:
            self._layer(node, LAYERS[name])
        elif name in NORMS:
            self._norm(node)
        elif name in HOMOGENEOUS:
            self._pass_on(node)
        elif name in ("add", "sub", "cat"):
            self._merge(node)
        elif name in ("mul", "div") and not isinstance(node.args[1], fx.Node):
            self._pass_on(node)
        else:
            self.spoil(node)

    def _param(self, arg: Any) -> str | None:
        value = self.env.get(arg) if isinstance(arg, fx.Node) else None
        return value.param if isinstance(value, ops.Value) else None

    def _groups(self, node: fx.Node) -> list[str]:
        value = self.env[node]
        value = value[0] if isinstance(value, list) else value
        return [g for dim in value.dims for g in self.names.axis(dim).groups if g in self.free]

    def _slot(self, kind: str, group: str, slot: Slot) -> _Class:
        """The class a parameter's axis writes (``up``) or reads (``down``); it must have the whole group on it."""
        found = self.by_slot.setdefault((f"{kind} {group}", slot), _Class(group))
        getattr(found.root(), kind).add(slot)
        factors = [f for part in self.spec.params[slot[0]].axes[slot[1]].parts for f in part if isinstance(f, str)]
        whole = [f for f in factors if not is_inner(f)]
        if not any(group in self.spec.lineage(f) for f in whole) or f"/{group}" in factors:
            found.root().spoiled = True
        return found

    def _layer(self, node: fx.Node, reads: int) -> None:
        bias_first = ops.name_of(node.target) == "addmm"
        data, weight, bias = (node.args[1], node.args[2], node.args[0]) if bias_first else (*node.args, None)[:3]
        name, bias_name = self._param(weight), self._param(bias)
        dims = self.env[weight].dims  # type: ignore[index]
        known = name is not None and (bias is None or bias_name is not None) and self._param(data) is None
        if name is None or not known or len(dims) < 2:
            self.spoil(node)
            return
        contracted = self.names.axis(dims[reads]).groups
        depthwise = not contracted
        incoming = self.classes.get(data, {})  # type: ignore[arg-type]
        for group, found in incoming.items():
            if group in contracted or depthwise:
                found.merge(self._slot("down", group, (name, 0 if depthwise else reads)))
            else:
                found.root().spoiled = True
        for group in self.free.intersection(contracted) - set(incoming):  # reads a value whose scale is fixed
            self._slot("down", group, (name, reads)).root().spoiled = True
        writes = 1 - reads
        out = {g: self._slot("up", g, (name, writes)) for g in self.names.axis(dims[writes]).groups if g in self.free}
        for group, found in out.items() if bias_name is not None else ():
            found.merge(self._slot("up", group, (bias_name, 0)))  # type: ignore[arg-type]
        self.classes[node] = out

    def _norm(self, node: fx.Node) -> None:
        """Normalising removes the scale of its input up to eps, so, exactly, fixes it; the affine part sets another."""
        data = node.args[0]
        for found in self.classes.get(data, {}).values():  # type: ignore[arg-type]
            found.root().spoiled = True
        affine = (
            node.args[1:3]
            if ops.name_of(node.target) in ("batch_norm", "instance_norm", "_native_batch_norm_legit_no_training")
            else node.args[2:4]
        )
        params = [p for p in map(self._param, affine) if p is not None]
        out: Classes = {}
        for param in params:
            for k, dim in enumerate(self.env[next(a for a in affine if self._param(a) == param)].dims):  # type: ignore[index]
                for group in self.names.axis(dim).groups:
                    if group in self.free:
                        found = self._slot("up", group, (param, k))
                        out.setdefault(group, found).merge(found)
        self.classes[node] = out

    def _pass_on(self, node: fx.Node) -> None:
        incoming = self.classes.get(node.args[0], {})  # type: ignore[arg-type]
        self._freeze(node, skip=ops.name_of(node.target) == "prelu")
        kept = set(self._groups(node))
        padded = ops.name_of(node.target) == "constant_pad_nd" and (*node.args, 0)[2] not in (0, 0.0)
        for group, found in incoming.items():
            if group not in kept or padded:
                found.root().spoiled = True
        self.classes[node] = {g: c for g, c in incoming.items() if g in kept}

    def _merge(self, node: fx.Node) -> None:
        self._freeze(node)
        operands = node.args[0] if ops.name_of(node.target) == "cat" else node.args[:2]
        incoming = [self.classes.get(a, {}) if isinstance(a, fx.Node) else {} for a in operands]  # type: ignore[union-attr]
        out: Classes = {}
        for arg, classes in zip(operands, incoming, strict=True):  # type: ignore[arg-type]
            own = self._groups(arg) if isinstance(arg, fx.Node) else []
            for group in self._groups(node):
                if group in classes:
                    out.setdefault(group, classes[group]).merge(classes[group])
                elif group in own or ops.name_of(node.target) != "cat":  # something without a scale is added
                    out.setdefault(group, _Class(group)).root().spoiled = True
        for classes in incoming:
            for group, found in classes.items():
                if group in out:
                    out[group].merge(found)
        self.classes[node] = out

    def _freeze(self, node: fx.Node, skip: bool = False) -> None:
        if not skip:
            self.frozen.update(p for p in map(self._param, _nodes(node.args)) if p is not None)

    def spoil(self, node: fx.Node) -> None:
        self._freeze(node)
        for arg in _nodes(node.args):
            for found in self.classes.get(arg, {}).values():
                found.root().spoiled = True


def _nodes(args: Any) -> Iterable[fx.Node]:
    if isinstance(args, fx.Node):
        yield args
    elif isinstance(args, (tuple, list)):
        for a in args:
            yield from _nodes(a)


def find_scalings(
    program: ExportedProgram, env: Mapping[fx.Node, Any], names: GroupNames, spec: Spec
) -> tuple[Scaling, ...]:
    """All scaling classes of the traced program that nothing spoils."""
    walk = _Walk(env, names, spec)
    for node in program.graph.nodes:
        if node.op == "call_function" and isinstance(node.meta.get("val"), (Tensor, tuple, list)):
            walk.visit(node)
        elif node.op == "output":
            walk.spoil(node)
    found = []
    for root in dict.fromkeys(c.root() for c in walk.by_slot.values()):
        slots = root.up | root.down
        if root.up and root.down and not root.spoiled and not any(param in walk.frozen for param, _ in slots):
            found.append(Scaling(root.group, tuple(sorted(root.up)), tuple(sorted(root.down))))
    return tuple(found)
