r"""Weight Matching: coordinate ascent on the inner product of two networks' weights.

.. math:: \max_P \; \sum_p \langle a_p, (P b)_p \rangle \quad\Leftrightarrow\quad \min_P \|a - P b\|^2

With every other group fixed the objective is linear in one group's permutation: a linear assignment problem.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from wsgraph import Permutation, Spec, WeightGraph, to_graph
from wsgraph.blocks import Piece, Place
from wsgraph.randomness import seeded
from wsgraph.sums import inner
from wsgraph.widths import fitted, placed, widened

from ..alignment import Alignment, aligned_graphs, counted
from ..progress import progress
from ..projection.assignment import hard_maps
from ..running.networks import NetworkLike, as_graph

LARGE = 1e30
PART = 2**20
"""Numbers that are widened at a time."""


def weight_matching(
    a: NetworkLike,
    b: NetworkLike,
    *,
    init: Alignment | Permutation | None = None,
    max_sweeps: int = 100,
    restarts: int = 1,
    tolerance: float = 1e-7,
    example_input: Tensor | None = None,
    spec: Spec | None = None,
    generator: torch.Generator | None = None,
) -> Alignment:
    """Match neurons by their weights; needs no data. Networks of different widths get a partial matching.

    The first sweep goes through the groups in order of execution and counts only weights to and from groups that are
    pinned or already matched: unmatched neighbours would add noise, which is why plain coordinate descent fails on
    residual streams. Further sweeps visit the groups in random order, skip those whose neighbours have not changed, and
    never lower the objective.

    Args:
        a: The reference.
        b: The network to permute.
        init: An alignment or a permutation to start from; it takes the place of the first sweep.
        max_sweeps: Sweeps before giving up.
        restarts: Number of runs; those after the first start from random permutations. The largest inner product wins.
        tolerance: Smallest gain, relative to the objective, that counts as one.
        example_input: Needed where the input's shape cannot be inferred.
        spec: The symmetry; traced when omitted.
        generator: Randomness of the orders; by default the same in every call.
    """
    left, right = aligned_graphs(*(as_graph(network, example_input, spec) for network in (a, b)))
    if [g.size for g in left.spec.free] != [g.size for g in right.spec.free]:
        return _partial(left, right, init, max_sweeps, restarts, tolerance, generator)
    first = init.permutation if isinstance(init, Alignment) else init
    start, generator = time.perf_counter(), generator or seeded()
    runs = []
    with progress("weight matching", None) as step:
        for k in range(restarts):
            run = Ascent(left, right, first if k == 0 else Permutation.random(left.spec, generator), generator)
            run.climb(max_sweeps, tolerance, step=step)
            runs.append(run)
    best = max(runs, key=lambda run: run.objective)
    if not best.converged:
        warnings.warn(f"weight matching did not converge in {max_sweeps} sweeps; raise max_sweeps", stacklevel=2)
    elapsed = time.perf_counter() - start
    scores = Cosines(left, right, best.permutation)
    return Alignment(left, right, scores, best.permutation.maps, "weight_matching", elapsed, best.converged)


def _partial(a: WeightGraph, b: WeightGraph, init: Alignment | Permutation | None, *settings: Any) -> Alignment:
    """Weight matching of networks of different widths, both widened to the larger one by neurons without weights."""
    if init is not None:
        raise ValueError("the networks have different widths, where weight matching starts from scratch: pass no init")
    large = widened(a.spec, {g.name: max(g.size, b.spec.groups[g.name].size) for g in a.spec.free})
    places = [placed(graph.spec, large) for graph in (a, b)]
    max_sweeps, restarts, tolerance, generator = settings
    found = weight_matching(
        *(to_graph(_with_silent_neurons(g, large, p), spec=large) for g, p in zip((a, b), places, strict=True)),
        max_sweeps=max_sweeps,
        restarts=restarts,
        tolerance=tolerance,
        generator=generator,
    )
    maps = {name: places[1][name][found.maps[name][places[0][name] >= 0]] for name in found.maps}
    return Alignment(a, b, None, maps, "weight_matching", found.elapsed, found.converged)


def _with_silent_neurons(graph: WeightGraph, large: Spec, places: Mapping[str, Tensor]) -> dict[str, Tensor]:
    like = graph.tensors
    nothing = {name: torch.zeros(large.shape(name), dtype=t.dtype, device=t.device) for name, t in like.items()}
    return fitted({name: t.detach() for name, t in like.items()}, graph.spec, nothing, large, places)


class Ascent:
    """One coordinate ascent.

    b is permuted parameter by parameter where a visit needs it: next to the matrix products that costs nothing, and
    nothing of the size of a network is kept beside the two, whose files may be mapped into memory.

    Attributes:
        permutation: The current one.
        inner: What each parameter adds to the objective under it, ⟨a_p, (P b)_p⟩.
        history: The objective after the first sweep and after every accepted move from then on.
    """

    def __init__(
        self, a: WeightGraph, b: WeightGraph, init: Permutation | None = None, generator: torch.Generator | None = None
    ) -> None:
        self.spec: Spec = a.spec
        self.generator = generator or seeded()
        self.device, self.dtype = a.network.like.device, torch.promote_types(a.network.like.dtype, torch.float32)
        self.units = units(self.spec)
        kept = set(counted(a))
        self.pieces: dict[str, list[Piece]] = {}
        for piece in self.spec.pieces:
            if piece.param in kept and piece.places:
                self.pieces.setdefault(piece.param, []).append(piece)
        self.a = {k: a.tensors[k].detach() for k in self.pieces}
        self.b = {k: b.tensors[k].detach() for k in self.pieces}
        self.permutation = (init or Permutation.identity(self.spec)).to("cpu")
        self.matched = {g.name for g in self.spec.groups.values() if g.pinned or init is not None}
        self.inner = {k: inner(self.a[k], self._permuted(k, self.permutation)) for k in self.a}
        self.history: list[float] = []
        self.converged = False

    @property
    def objective(self) -> float:
        """⟨a, P b⟩ of the current permutation."""
        return sum(self.inner.values())

    def climb(self, max_sweeps: int, tolerance: float, step: Callable[..., None]) -> None:
        """Sweep until nothing moves."""
        everything = set(range(len(self.units)))
        if any(g.name not in self.matched for g in self.spec.free):
            for k in sorted(everything):
                self.visit(self.units[k], gain=-float("inf"))
                self.matched.update(self.units[k])
        self.history.append(self.objective)
        dirty = everything
        for _ in range(max_sweeps):
            for k in self._shuffled():
                if k in dirty:
                    dirty = dirty - {k}
                    if self.visit(self.units[k], gain=tolerance * abs(self.objective)):
                        self.history.append(self.objective)
                        dirty |= self._neighbours(k)
            step(note=f"inner product {self.objective:.6g}")
            if not dirty:
                self.converged = True
                return

    def _shuffled(self) -> list[int]:
        return torch.randperm(len(self.units), generator=self.generator).tolist()

    def visit(self, unit: Sequence[str], gain: float) -> bool:
        """Solve one unit's assignment and keep it if the objective grows by more than ``gain``; whether it did."""
        solved = hard_maps(self.spec, self.scores(unit) | self._still(unit))
        moves = {g: m for g, m in solved.items() if not torch.equal(m, torch.arange(len(m)))}
        if not moves:
            return False
        permutation = Permutation(self.spec, moves) @ self.permutation
        touched = [k for k in self.a if any(g in moves for axis in self.spec.params[k].axes for g in axis.groups)]
        after = {k: inner(self.a[k], self._permuted(k, permutation)) for k in touched}
        if sum(after.values()) - sum(self.inner[k] for k in touched) <= gain:
            return False
        self.permutation, self.inner = permutation, self.inner | after
        return True

    def _permuted(self, param: str, permutation: Permutation) -> Tensor:
        return permutation.permute(param, self.b[param])

    def _still(self, unit: Sequence[str]) -> dict[str, Tensor]:
        """Scores that keep what surrounds the unit where it is."""
        around = {self.spec.groups[g].parent for g in unit} - {None, *unit}
        sizes = {g: self.spec.groups[g].size for g in around if g is not None}
        return {g: LARGE * torch.eye(n, device=self.device, dtype=torch.float64) for g, n in sizes.items()}

    def scores(self, unit: Sequence[str]) -> dict[str, Tensor]:
        """∂⟨a, P b⟩/∂P of the unit's groups, from weights whose other groups are pinned or matched.

        Where two groups of the unit share their runs, how one of them is matched inside a run is open until it is
        known which run goes to which; such weights count when the groups are visited one by one.
        """
        shapes = {g: (self.spec.groups[g].size,) * 2 for g in unit}
        scores = {g: torch.zeros(shape, device=self.device, dtype=torch.float64) for g, shape in shapes.items()}
        for param, pieces in self.pieces.items():
            seen = [(x, p) for x in pieces for p in x.places if p.group in unit and self._counts(x, p, unit)]
            if seen:
                now = self._permuted(param, self.permutation)
                for piece, place in seen:
                    self._add_product(scores[place.group], piece.rows(self.a[param], place), piece.rows(now, place))
        return scores

    def _counts(self, piece: Piece, place: Place, unit: Sequence[str]) -> bool:
        return all(self._known(other, place, unit) for other in piece.places if other is not place)

    def _known(self, other: Place, place: Place, unit: Sequence[str]) -> bool:
        if shares_runs(other, place) and other.group in self.spec.lineage(place.group):
            return True  # the very runs the place's group is nested in
        return other.group in self.matched and not (other.group in unit and shares_runs(other, place))

    def _add_product(self, total: Tensor, x: Tensor, y: Tensor) -> None:
        """total += x yᵀ, part by part where wider copies of all would need much memory."""
        columns, rows = max(1, PART // len(x)), max(1, PART // len(y))
        for p, q in zip(x.split(columns, 1), y.split(columns, 1), strict=True):
            wide = q.to(self.dtype).T
            for part, some in zip(total.split(rows), p.split(rows), strict=True):
                part += some.to(self.dtype) @ wide

    def norms(self, group: str, tensors: Mapping[str, Tensor]) -> Tensor:
        """Norm of all weights to and from each neuron of a group."""
        places = [(x, p) for pieces in self.pieces.values() for x in pieces for p in x.places if p.group == group]
        total = torch.zeros(self.spec.groups[group].size, device=self.device, dtype=self.dtype)
        for piece, place in places:
            rows = piece.rows(tensors[piece.param], place)
            for part in rows.split(max(1, PART // len(rows)), 1):
                total += part.to(self.dtype).square().sum(1)
        return total.sqrt()

    def _neighbours(self, k: int) -> set[int]:
        """Units that share a parameter with unit k (k itself if a parameter joins it to itself)."""
        unit, out = set(self.units[k]), set()
        for piece in (x for pieces in self.pieces.values() for x in pieces):
            groups = [p.group for p in piece.places]
            if unit.intersection(groups):
                out |= {j for j, names in enumerate(self.units) if j != k and set(names).intersection(groups)}
                out |= {k} if sum(g in unit for g in groups) > 1 else set()
        return out


class Cosines(Mapping[str, Tensor]):
    """Cosine between all weights of each neuron of a and of b, their neighbours matched; ``[i, j]``: i in a, j in b.

    Found group by group when somebody asks: together they can be larger than the networks.

    Args:
        a: The reference.
        b: The other network.
        permutation: Of b.
    """

    def __init__(self, a: WeightGraph, b: WeightGraph, permutation: Permutation) -> None:
        self.a, self.b, self.permutation = a, b, permutation
        self.names = [group.name for group in a.spec.free]
        self._known: dict[str, Tensor] = {}

    @cached_property
    def _end(self) -> Ascent:
        return Ascent(self.a, self.b, self.permutation)

    def __getitem__(self, group: str) -> Tensor:
        if group not in self._known:
            if group not in self.names:
                raise KeyError(group)
            self._known[group] = self._cosine(group)
        return self._known[group]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def _cosine(self, group: str) -> Tensor:
        found = self._end.scores((group,))[group].to(self._end.dtype)
        x, y = (self._end.norms(group, tensors).clamp_min(1e-12) for tensors in (self._end.a, self._end.b))
        back = torch.argsort(self.permutation.maps[group]).to(found.device)
        return found[:, back] / (x[:, None] * y)


def units(spec: Spec) -> list[tuple[str, ...]]:
    """Free groups in order of execution; groups nested in one another are solved together.

    Those that share runs in a parameter are then visited one by one, too, with their runs where they are.
    """
    families: dict[str, list[str]] = {}
    for group in spec.free:
        families.setdefault(list(spec.lineage(group.name))[-1], []).append(group.name)
    around = {group.parent for group in spec.free}
    sharing = {p.group for x in spec.pieces for p in x.places for q in x.places if q is not p and shares_runs(p, q)}
    sharing -= {name for name in around if name is not None}
    return [unit for names in families.values() for unit in (tuple(names), *((n,) for n in names if n in sharing))]


def shares_runs(p: Place, q: Place) -> bool:
    """Whether two groups of a parameter stand in the same runs."""
    return bool(set(p.levels) & set(q.levels))
