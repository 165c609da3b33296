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

from ..alignment import Alignment, counted
from ..progress import progress
from ..projection import hard_maps


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
        self.blocks = [x for x in self.spec.blocks if x.param in kept]
        self.units = units(self.spec)
        names = {x.param for x in self.blocks}
        dtype = torch.promote_types(a.network.like.dtype, torch.float32)
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
        self.scores |= found
        solved = hard_maps(self.spec, found)
        moves = {g: m for g, m in solved.items() if not torch.equal(m, torch.arange(len(m)))}
        if not moves:
            return False
        permutation = Permutation(self.spec, moves)
        touched = [k for k in self.now if any(g in moves for axis in self.spec.params[k].axes for g in axis.groups)]
        new = {k: permutation.permute(k, self.now[k]) for k in touched}
        difference = self._inner(new) - self._inner({k: self.now[k] for k in touched})
        if difference <= gain:
            return False
        self.now |= new
        self.maps |= {g: self.maps[g][m] for g, m in moves.items()}
        self.scores |= {g: found[g][:, m.to(found[g].device)] for g, m in moves.items()}
        self.objective += difference
        return True

    def _scores(self, unit: Sequence[str]) -> dict[str, Tensor]:
        """∂⟨a, P b⟩/∂P of the unit's groups, from weights whose other end is pinned or matched."""
        device = next(iter(self.a.values())).device
        scores = {g: torch.zeros((self.spec.groups[g].size,) * 2, device=device, dtype=torch.float64) for g in unit}
        for block in self.blocks:
            target, source = block.target, block.source
            if target in unit and (source is None or source in self.matched):
                x, y = (block.view(t[block.param]).flatten(1) for t in (self.a, self.now))
                scores[target] += x @ y.T
            if source is not None and source in unit and target in self.matched:
                x, y = (block.view(t[block.param]).transpose(0, 1).flatten(1) for t in (self.a, self.now))
                scores[source] += x @ y.T
        return scores

    def cosines(self) -> dict[str, Tensor]:
        """Cosine between all weights of each neuron of a and of b, as of the last visit; ``[i, j]``: i in a, j in b.

        Nothing is multiplied again: a group that is not visited any more has neighbours that do not move any more.
        """
        out = {}
        for g, s in self.scores.items():
            x, y = (self._norms(g, tensors).clamp_min(1e-12) for tensors in (self.a, self.now))
            back = torch.argsort(self.maps[g]).to(s.device)
            out[g] = (s / (x[:, None] * y))[:, back].to(x.dtype)
        return {g.name: out[g.name] for g in self.spec.free if g.name in out}

    def _norms(self, group: str, tensors: Mapping[str, Tensor]) -> Tensor:
        """Norm of all weights to and from each neuron."""
        views = [(x, x.view(tensors[x.param])) for x in self.blocks]
        parts = [v.flatten(1) for x, v in views if x.target == group]
        parts += [v.transpose(0, 1).flatten(1) for x, v in views if x.source == group]
        nothing = views[0][1].new_zeros(self.spec.groups[group].size)
        return torch.stack([nothing, *(part.square().sum(1) for part in parts)]).sum(0).sqrt()

    def _neighbours(self, k: int) -> set[int]:
        """Units that share a block with unit k (k itself if a block joins it to itself)."""
        unit, out = set(self.units[k]), set()
        for block in self.blocks:
            if block.source is not None and {block.target, block.source} & unit:
                other = {block.target, block.source} - unit or unit
                out |= {j for j, names in enumerate(self.units) if other & set(names)}
        return out

    def _inner(self, tensors: Mapping[str, Tensor]) -> float:
        return sum(float((self.a[k] * t).sum(dtype=torch.float64)) for k, t in tensors.items())


def units(spec: Spec) -> list[tuple[str, ...]]:
    """Free groups in order of execution; groups nested in one another are solved together."""
    families: dict[str, list[str]] = {}
    for group in spec.free:
        families.setdefault(_root(spec, group.name), []).append(group.name)
    return [tuple(names) for names in families.values()]


def _root(spec: Spec, name: str) -> str:
    parent = spec.groups[name].parent
    return name if parent is None else _root(spec, parent)
