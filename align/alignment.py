"""What an aligner answers: how must network b be permuted to match network a."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import FrozenInstanceError, asdict, dataclass
from functools import cached_property
from html import escape
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor, nn

from wsgraph import Permutation, Spec, WeightGraph, plain
from wsgraph.files import load_tensors, save_tensors
from wsgraph.inputs import ExampleInput, infer_example_input
from wsgraph.sums import squared_distance
from wsgraph.ties import untied
from wsgraph.verify import moved

from .projection.assignment import hard_maps_of
from .projection.sinkhorn import soft_maps

N = TypeVar("N")
KIND = "align.Alignment"
STATISTICS = ("mean", "variance")
"""Roles of norm statistics: they move with their neurons but are no part of any distance."""


@dataclass(frozen=True)
class Candidate:
    """What was tried on the way to an Alignment.

    Attributes:
        method: As in :func:`align.match`.
        score: How it did, by the measure of whoever tried it; less is better. ``None``: not judged.
        elapsed: Seconds it took.
        kept: Whether it is the answer.
    """

    method: str
    score: float | None
    elapsed: float = 0.0
    kept: bool = False


class Alignment:
    """The result of every aligner: F(a, b), which minimises ‖a − F·b‖. It is frozen; :meth:`replace` makes another.

    Args:
        a: The reference network.
        b: The network to be permuted.
        scores: Group name → ``[n_a, n_b]``; ``scores[i, j]`` speaks for matching neuron i of a with neuron j of b.
        maps: Group name → index tensor, for aligners that find permutations rather than scores.
        method: Name of the aligner.
        elapsed: Seconds it took.
        converged: Whether an iterative aligner came to rest (one-pass aligners always do).
        candidates: What was tried, by aligners that choose among several.
    """

    a: WeightGraph
    b: WeightGraph
    method: str
    elapsed: float
    converged: bool
    candidates: tuple[Candidate, ...]
    _scores: Mapping[str, Tensor]
    _maps: Mapping[str, Tensor] | None  # found when first asked for

    def __init__(
        self,
        a: WeightGraph,
        b: WeightGraph,
        scores: Mapping[str, Tensor] | None = None,
        maps: Mapping[str, Tensor] | None = None,
        method: str = "",
        elapsed: float = 0.0,
        converged: bool = True,
        candidates: Sequence[Candidate] = (),
    ) -> None:
        if scores is None and maps is None:
            raise ValueError("an Alignment needs scores or maps")
        vars(self).update(a=a, b=b, method=method, elapsed=elapsed, converged=converged, candidates=tuple(candidates))
        vars(self).update(
            _scores=_in_order(b.spec, scores or {}), _maps=None if maps is None else _in_order(b.spec, maps)
        )

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(f"an Alignment is frozen: make another by .replace(), as in .replace({name}=...)")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError("an Alignment is frozen")

    def replace(self, **changes: Any) -> Alignment:
        """The same with another ``method``, ``elapsed``, ``converged`` or ``candidates``."""
        for name in changes:
            if name not in (allowed := ("method", "elapsed", "converged", "candidates")):
                raise TypeError(f"'{name}' cannot be replaced, only {list(allowed)} can; make a new Alignment")
        if "candidates" in changes:
            changes["candidates"] = tuple(changes["candidates"])
        other = copy.copy(self)
        vars(other).update(changes)
        return other

    @property
    def scores(self) -> Mapping[str, Tensor]:
        """Group name → ``[n_a, n_b]``, in the Spec's order; empty for aligners that find permutations without."""
        return MappingProxyType(self._scores)

    @property
    def spec(self) -> Spec:
        """Architecture of b, the network that is permuted."""
        return self.b.spec

    @property
    def maps(self) -> Mapping[str, Tensor]:
        """Group name → for each neuron of a its partner in b, −1 for none (other widths only); in the Spec's order."""
        if self._maps is None:
            project([self])
        return MappingProxyType(self._maps or {})

    @property
    def pairs(self) -> dict[str, Tensor]:
        """Matched neurons: group name → ``[m, 2]``, neuron of a and neuron of b."""
        return {
            name: torch.stack([torch.arange(len(idx))[idx >= 0], idx[idx >= 0]], dim=1)
            for name, idx in self.maps.items()
        }

    @property
    def square(self) -> bool:
        """Whether both networks have the same widths."""
        return all(self.b.spec.groups[g.name].size == g.size for g in self.a.spec.free)

    @cached_property
    def permutation(self) -> Permutation:
        """The hard permutation to apply to b."""
        if not self.square:
            raise ValueError(
                "the networks have different widths, so there is no permutation; use the index pairs in .pairs, or "
                "align.merge(a, b, alignment=...), which brings b to the size of a"
            )
        return Permutation(self.spec, self.maps)

    def soft(self, temperature: float = 1.0, iterations: int = 20) -> Permutation:
        """Doubly stochastic matrices by Sinkhorn, differentiable in the scores."""
        if not self.scores:
            raise ValueError(
                f"{self.method or 'this aligner'} finds permutations without scores; there is no soft version"
            )
        if not self.square:
            raise ValueError("the networks have different widths, so there is no doubly stochastic matrix between them")
        return Permutation.nearly(self.spec, soft_maps(self.spec, self.scores, temperature, iterations))

    def apply(self, network: N) -> N:
        """b, permuted to match a (module, WeightGraph or state dict of b's architecture, or the path of one)."""
        return self.permutation.apply(network)  # type: ignore[call-overload]

    @property
    def distance(self) -> float:
        """‖a − F·b‖ over all parameters (norm statistics aside)."""
        a, b, permute = self.a.tensors, self.b.tensors, self.permutation.permute
        return sum(squared_distance(a[k], permute(k, b[k])) for k in counted(self.a)) ** 0.5

    def verify(self, model: nn.Module, x: ExampleInput | None = None) -> float:
        """How far applying it moves the function of ``model``: in float64, nearly 0 unless the Spec is wrong.

        Args:
            model: A network of b's architecture.
            x: An input; inferred when omitted.

        Returns:
            The largest difference of outputs, relative to the largest output.
        """
        return moved(model, self.permutation, infer_example_input(model) if x is None else x)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write permutation and scores (not the networks) to a safetensors file."""
        tensors = {f"map/{k}": v for k, v in self.maps.items()} | {f"scores/{k}": v for k, v in self.scores.items()}
        meta = {
            "kind": KIND,
            "spec": self.spec.fingerprint,
            "reference": self.a.spec.fingerprint,
            "method": self.method,
            "elapsed": repr(self.elapsed),
            "converged": str(int(self.converged)),
        }
        if self.candidates:
            meta["candidates"] = json.dumps([asdict(tried) for tried in self.candidates])
        save_tensors(tensors, path, meta)

    @classmethod
    def load(cls, path: str | os.PathLike[str], a: WeightGraph, b: WeightGraph) -> Alignment:
        """Read what :meth:`save` wrote, for the same two networks' architecture."""
        tensors, meta = load_tensors(path, KIND)
        for what, graph in (("spec", b), ("reference", a)):
            if meta.get(what) != graph.spec.fingerprint:
                raise ValueError(
                    f"{path} holds an alignment of another architecture (fingerprint {meta.get(what)}, expected "
                    f"{graph.spec.fingerprint}); pass the networks it was made for"
                )
        found: dict[str, dict[str, Tensor]] = {"map": {}, "scores": {}}
        try:
            for key, value in tensors.items():
                kind, _, name = key.partition("/")
                found[kind][b.spec.groups[name].name] = value
            method, elapsed, converged = meta["method"], float(meta["elapsed"]), bool(int(meta["converged"]))
            tried = plain.parse(meta.get("candidates", "[]"), "candidates")
            candidates = plain.value(tuple[Candidate, ...], tried, "candidates")
        except (KeyError, ValueError) as error:
            raise ValueError(f"{path} is not what Alignment.save writes: {error!r}. Save it again.") from error
        return cls(a, b, found["scores"], found["map"], method, elapsed, converged, candidates)

    def __repr__(self) -> str:
        moved = sum(map(_moved, self.maps.values()))
        total = sum(len(idx) for idx in self.maps.values())
        state = "" if self.converged else ", not converged"
        neurons = f"{moved} of {total} neurons moved in {len(self.maps)} group{'s' * (len(self.maps) != 1)}"
        if not self.square:
            matched = sum(len(pairs) for pairs in self.pairs.values())
            neurons = f"{matched} of {total} neurons matched, partial: different widths, see .pairs"
        return f"Alignment({self._by}: {neurons}, {self.elapsed:.3f} s{state})"

    @property
    def _by(self) -> str:
        """The method, and what it chose."""
        return self.method + "".join(f", which kept {tried.method}" for tried in self.candidates if tried.kept)

    def _repr_html_(self) -> str:
        """A table of the groups, for notebooks."""
        state = "" if self.converged else ", not converged"
        rows = [(escape(name), str(len(idx)), str(_moved(idx))) for name, idx in self.maps.items()]
        cells = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
        head = "<tr><th>group</th><th>size</th><th>moved</th></tr>"
        return f"<table><caption>{escape(self._by)}, {self.elapsed:.3f} s{state}</caption>{head}{cells}</table>"


def _in_order(spec: Spec, by_group: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Groups as the Spec lists them, whatever order an aligner visits them in or a file holds them in.

    A mapping that computes what it is asked for is taken as it is.
    """
    if not isinstance(by_group, (dict, MappingProxyType)):
        return by_group
    listed = {name: k for k, name in enumerate(spec.groups)}
    return {name: by_group[name] for name in sorted(by_group, key=lambda name: listed.get(name, len(listed)))}


def _moved(idx: Tensor) -> int:
    """How many neurons have another partner than their namesake."""
    return int((idx != torch.arange(len(idx))).sum())


def apply_each(alignment: Alignment | Sequence[Alignment] | None, networks: Sequence[N]) -> list[N]:
    """The networks, each permuted by its alignment; as they are without any."""
    found = several(alignment, len(networks))
    return [n if x is None else x.apply(n) for x, n in zip(found, networks, strict=True)]


def several(alignment: Alignment | Sequence[Alignment] | None, count: int) -> list[Alignment | None]:
    """One alignment for each of some networks, or none for all."""
    if alignment is None:
        return [None] * count
    found: list[Any] = [alignment] if isinstance(alignment, (Alignment, str)) else list(alignment)
    for one in found:
        if not isinstance(one, Alignment):
            how = f"align.match(a, b, {one!r})" if isinstance(one, str) else "align.match(a, b)"
            raise TypeError(f"alignment is of type {type(one).__name__}, expected an Alignment: pass alignment={how}")
    if len(found) != count:
        raise ValueError(f"{count} networks to align need as many alignments, got {len(found)}")
    return found


def project(alignments: Sequence[Alignment]) -> None:
    """Find the hard permutations of several alignments from their scores, moving all scores to the CPU at once."""
    maps = hard_maps_of([(alignment.a.spec, alignment.scores) for alignment in alignments])
    for alignment, found in zip(alignments, maps, strict=True):
        vars(alignment)["_maps"] = found  # the one thing that is found later


def counted(graph: WeightGraph) -> list[str]:
    """Parameters that count in distances: no norm statistics, and tied ones once."""
    roles = {name: param.role for name, param in graph.spec.params.items()}
    numbers = {name: t for name, t in graph.tensors.items() if t.is_floating_point() and roles[name] not in STATISTICS}
    return list(untied(numbers))


def aligned_graphs(a: Any, b: Any) -> tuple[WeightGraph, WeightGraph]:
    """Check that two graphs can be aligned: same layers, inputs, outputs and activations; widths may differ."""
    sa, sb = a.spec, b.spec
    widths = [[group.size for group in spec.groups.values()] for spec in (sa, sb)]
    if widths[0] == widths[1] or not same_shape(sa, sb):
        sa.require_same(sb)
    for x, y in zip(sa.groups.values(), sb.groups.values(), strict=True):
        if x.size == 1 < y.size:
            raise ValueError(
                f"'{x.name}' has one neuron in the first network and {y.size} in the second, so that there is nothing "
                "to choose among: pass the wider network first"
            )
        if x.activation != y.activation and "unknown" not in (x.activation, y.activation):
            raise ValueError(
                f"the two networks have different activations: '{x.name}' has {x.activation!r} in the first and "
                f"{y.activation!r} in the second"
            )
    return a, b


def same_shape(a: Spec, b: Spec) -> bool:
    """Whether two architectures differ in the widths of free groups only."""
    if list(a.groups) != list(b.groups) or list(a.params) != list(b.params):
        return False
    axes = all(a.params[p].axes == b.params[p].axes for p in a.params)
    return axes and all(
        (x.pinned, x.parent) == (y.pinned, y.parent) and (not x.pinned or x.size == y.size)
        for x, y in zip(a.groups.values(), b.groups.values(), strict=True)
    )
