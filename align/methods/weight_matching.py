r"""Weight Matching: coordinate ascent on the inner product of two networks' weights.

.. math:: \max_P \; \sum_p \langle a_p, (P b)_p \rangle \quad\Leftrightarrow\quad \min_P \|a - P b\|^2

With every other group fixed the objective is linear in one group's permutation: a linear assignment problem.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from wsgraph import Permutation, Spec, WeightGraph
from wsgraph.blocks import Place

from ..alignment import Alignment, counted
from ..progress import progress
from ..projection import hard_maps

LARGE = 1e30


def weight_matching(
    a: WeightGraph,
    b: WeightGraph,
    *,
    init: Permutation | None = None,
    max_sweeps: int = 100,
    restarts: int = 1,
    tolerance: float = 1e-7,
    generator: torch.Generator | None = None,
) -> Alignment:
    """Match neurons by their weights; needs no data.

    The first sweep goes through the groups in order of execution and counts only weights to and from groups that are
    pinned or already matched: unmatched neighbours would add noise, which is why plain coordinate descent fails on
    residual streams. Further sweeps visit the groups in random order, skip those whose neighbours have not changed, and
    never lower the objective.

    Args:
        a: The reference.
        b: The network to permute.
        init: A permutation to start from; it takes the place of the first sweep.
        max_sweeps: Sweeps before giving up.
        restarts: Number of runs; those behind the first start from random permutations. The largest inner product wins.
        tolerance: Smallest gain, relative to the objective, that counts as one.
        generator: Randomness of the orders.
    """
    a.spec.require_same(b.spec)
    start = time.perf_counter()
    runs = []
    with progress("weight matching", None) as step:
        for k in range(restarts):
            run = Ascent(a, b, init if k == 0 else Permutation.random(a.spec, generator), generator)
            run.climb(max_sweeps, tolerance, step=step)
            runs.append(run)
    best = max(runs, key=lambda run: run.objective)
    if not best.converged:
        warnings.warn(f"weight matching did not converge in {max_sweeps} sweeps; raise max_sweeps", stacklevel=2)
    elapsed = time.perf_counter() - start
    return Alignment(a, b, best.cosines(), best.maps, "weight_matching", elapsed, best.converged)


class Ascent:
    """One coordinate ascent.

    Attributes:
        maps: The current permutation.
        now: b's tensors under it, kept up to date, so that every visit is one matrix product per block.
        scores: What the last visit of each group compared, neurons of a with neurons of the permuted b.
        objective: The current inner product.
        history: Its value after the first sweep and after every accepted move from then on.
    """

    def __init__(
        self, a: WeightGraph, b: WeightGraph, init: Permutation | None = None, generator: torch.Generator | None = None
    ) -> None:
        self.spec: Spec = a.spec
        self.generator = generator
        kept = set(counted(a))
        self.pieces = [x for x in self.spec.pieces if x.param in kept and x.places]
        self.units = units(self.spec)
        names = {x.param for x in self.pieces}
        self.dtype = dtype = torch.promote_types(a.network.like.dtype, torch.float32)
        self.device = a.network.like.device
        start = init or Permutation.identity(self.spec)
        self.maps = {k: v.cpu() for k, v in start.maps.items()}
        self.a = {k: t.detach().to(dtype) for k, t in a.tensors.items() if k in names}
        self.now = {k: t.detach().to(dtype) for k, t in start.apply(b).tensors.items() if k in names}
        self.matched = {g.name for g in self.spec.groups.values() if g.pinned or init is not None}
        self.scores: dict[str, Tensor] = {}
        self.objective = self._inner(self.now)
        self.history: list[float] = []
        self.converged = False

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
        found = self._scores(unit)
        self.scores |= {g: s.to(self.dtype) for g, s in found.items()}
        solved = hard_maps(self.spec, found | self._still(unit))
        moves = {g: m for g, m in solved.items() if not torch.equal(m, torch.arange(len(m)))}
        if not moves:
            return False
        permutation = Permutation(self.spec, moves)
        touched = [k for k in self.now if any(g in moves for axis in self.spec.params[k].axes for g in axis.groups)]
        # One tensor at a time, and again where the move is kept: a second copy of all weights would cost more.
        before = self._inner({k: self.now[k] for k in touched})
        difference = sum(self._inner({k: permutation.permute(k, self.now[k])}) for k in touched) - before
        if difference <= gain:
            return False
        for k in touched:
            self.now[k] = permutation.permute(k, self.now[k])
        self.maps |= {g: self.maps[g][m] for g, m in moves.items()}
        self.scores |= {g: self.scores[g][:, m.to(self.scores[g].device)] for g, m in moves.items()}
        self.objective += difference
        return True

    def _still(self, unit: Sequence[str]) -> dict[str, Tensor]:
        """Scores that keep what surrounds the unit where it is."""
        around = {self.spec.groups[g].parent for g in unit} - {None, *unit}
        sizes = {g: self.spec.groups[g].size for g in around if g is not None}
        return {g: LARGE * torch.eye(n, device=self.device, dtype=torch.float64) for g, n in sizes.items()}

    def _scores(self, unit: Sequence[str]) -> dict[str, Tensor]:
        """∂⟨a, P b⟩/∂P of the unit's groups, from weights whose other groups are pinned or matched.

        Where two groups of the unit share their runs, how one of them is matched inside a run is open until it is
        known which run goes to which; such weights count when the groups are visited one by one.
        """
        sizes = {g: self.spec.groups[g].size for g in unit}
        scores = {g: torch.zeros(n, n, device=self.device, dtype=torch.float64) for g, n in sizes.items()}
        for piece in self.pieces:
            for place in piece.places:
                if place.group in unit and all(self._known(p, place, unit) for p in piece.places if p is not place):
                    x, y = (piece.rows(t[piece.param], place) for t in (self.a, self.now))
                    scores[place.group] += x @ y.T
        return scores

    def _known(self, other: Place, place: Place, unit: Sequence[str]) -> bool:
        if shares_runs(other, place) and other.group in self.spec.lineage(place.group):
            return True  # the very runs the place's group is nested in
        return other.group in self.matched and not (other.group in unit and shares_runs(other, place))

    def cosines(self) -> dict[str, Tensor]:
        """Cosine between all weights of each neuron of a and of b, as of the last visit; ``[i, j]``: i in a, j in b.

        Nothing is multiplied again: a group that is not visited any more has neighbours that do not move any more.
        """
        out = {}
        for g in list(self.scores):
            s = self.scores.pop(g)  # handed over one by one: together they can be larger than the network
            x, y = (self._norms(g, tensors).clamp_min(1e-12) for tensors in (self.a, self.now))
            back = torch.argsort(self.maps[g]).to(s.device)
            out[g] = (s / (x[:, None] * y))[:, back].to(x.dtype)
        return {g.name: out[g.name] for g in self.spec.free if g.name in out}

    def _norms(self, group: str, tensors: Mapping[str, Tensor]) -> Tensor:
        """Norm of all weights to and from each neuron."""
        rows = [x.rows(tensors[x.param], p) for x in self.pieces for p in x.places if p.group == group]
        nothing = next(iter(tensors.values())).new_zeros(self.spec.groups[group].size)
        return torch.stack([nothing, *(part.square().sum(1) for part in rows)]).sum(0).sqrt()

    def _neighbours(self, k: int) -> set[int]:
        """Units that share a parameter with unit k (k itself if a parameter joins it to itself)."""
        unit, out = set(self.units[k]), set()
        for piece in self.pieces:
            groups = [p.group for p in piece.places]
            if unit.intersection(groups):
                out |= {j for j, names in enumerate(self.units) if j != k and set(names).intersection(groups)}
                out |= {k} if sum(g in unit for g in groups) > 1 else set()
        return out

    def _inner(self, tensors: Mapping[str, Tensor]) -> float:
        return sum(float((self.a[k] * t).sum(dtype=torch.float64)) for k, t in tensors.items())


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
