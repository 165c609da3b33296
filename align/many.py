r"""Many networks at once: bring all of them into one common frame, the universe.

Each network i gets one permutation Uᵢ into the universe. Any two are then matched by Pᵢⱼ = Uᵢᵀ Uⱼ, so cycles are
consistent by construction: Pᵢⱼ Pⱼₖ = Pᵢₖ. The objective is the agreement of all pairs,

.. math:: \sum_{i<j} \langle U_i v_i, U_j v_j \rangle .

With the learned aligner pairs agree by its scores instead (:mod:`align.score_frame`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from wsgraph import Permutation, WeightGraph
from wsgraph.randomness import seeded

from .alignment import counted
from .matching import match
from .methods.learned import pretrained
from .methods.weight_matching import Ascent, units
from .progress import progress
from .running.networks import NetworkLike, as_graph, read_state_dicts
from .score_frame import ScoreFrame, to_first

if TYPE_CHECKING:
    from .deep_align import DeepAlign

STRATEGIES = ("reference", "merge_many", "universe")
SEEN_AT_ONCE = {"aligner", "example_input", "spec"}
"""Options with which the learned aligner sees all networks at once; others (``scale``) are those of a pair."""


@dataclass(frozen=True)
class Universe:
    """Permutations of several networks into one frame.

    Attributes:
        permutations: Uᵢ of each network, in order.
        converged: Whether the iteration came to rest.
    """

    permutations: tuple[Permutation, ...]
    converged: bool = True

    def between(self, i: int, j: int) -> Permutation:
        """Pᵢⱼ = Uᵢᵀ Uⱼ: how network j must be permuted to match network i."""
        return self.permutations[i].inverse() @ self.permutations[j]

    def apply(self, models: Sequence[nn.Module]) -> list[nn.Module]:
        """All networks in the universe, ready to be averaged."""
        return [u.apply(m) for u, m in zip(self.permutations, models, strict=True)]


def match_many(
    networks: Sequence[NetworkLike],
    strategy: str = "universe",
    *,
    method: str = "weight_matching",
    max_sweeps: int = 50,
    seed: int | None = 0,
    **options: Any,
) -> Universe:
    """Align three or more networks of one architecture.

    ``method="deep_align"`` sees all networks at once: each is embedded once, with codes from the weights of all, and
    ``merge_many`` and ``universe``, which are the same then, maximise the agreement of all pairs by its scores.

    Args:
        networks: Modules, graphs, state dicts or paths.
        strategy: ``reference`` aligns each to the first by ``method``. ``merge_many`` then lets each in turn match the
            mean of the others until nothing moves. ``universe`` goes on group by group: in each group all networks in
            turn match the others, so that none is finished before the rest have spoken.
        method: How networks are matched to the first; for ``reference`` that is the whole job.
        max_sweeps: Rounds before giving up.
        seed: Of the random orders; ``None`` is 0.
        options: Arguments of ``method``.
    """
    if len(networks) < 2:
        raise ValueError(f"match_many needs at least two networks, got {len(networks)}")
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy '{strategy}' is not one of {STRATEGIES}")
    tracing = options.get("example_input"), options.get("spec")
    networks = read_state_dicts(networks, *tracing)
    graphs = [as_graph(n, *tracing) for n in networks]
    if method == "deep_align" and options.keys() <= SEEN_AT_ONCE:
        return _learned(graphs, strategy, options.get("aligner") or pretrained(graphs[0]), max_sweeps)
    first = Permutation.identity(graphs[0].spec)
    start = [first, *(match(networks[0], n, method, seed=seed, **options).permutation for n in networks[1:])]
    if strategy == "reference":
        return Universe(tuple(start))
    frame = _Frame(graphs, start, seeded(seed))
    turn = frame.round_by_network if strategy == "merge_many" else frame.round_by_group
    return _settled(frame, turn, strategy, max_sweeps)


def _learned(graphs: Sequence[WeightGraph], strategy: str, aligner: DeepAlign, max_sweeps: int) -> Universe:
    for graph in graphs[1:]:
        graphs[0].spec.require_same(graph.spec)
    if strategy == "reference":
        return Universe(to_first(graphs, aligner))
    frame = ScoreFrame(graphs, aligner)
    return _settled(frame, frame.round, strategy, max_sweeps)


def _settled(frame: _Frame | ScoreFrame, turn: Callable[[], bool], strategy: str, max_sweeps: int) -> Universe:
    """The frame after turns until nothing moves."""
    with progress(strategy, max_sweeps) as step:
        for _ in range(max_sweeps):
            moved = turn()
            step(note=f"agreement {frame.agreement():.6g}")
            if not moved:
                return Universe(tuple(frame.permutations))
    warnings.warn(f"{strategy} did not converge in {max_sweeps} sweeps; raise max_sweeps", stacklevel=3)
    return Universe(tuple(frame.permutations), converged=False)


class _Frame:
    """All networks under their current permutations. Every accepted move raises the agreement."""

    def __init__(self, graphs: Sequence[WeightGraph], start: Sequence[Permutation], generator: torch.Generator) -> None:
        self.graphs, self.generator = graphs, generator
        self.permutations = list(start)

    def _now(self, i: int) -> WeightGraph:
        return self.permutations[i].apply(self.graphs[i])

    def _others(self, i: int) -> WeightGraph:
        """The mean of all networks but i, in the universe."""
        rest = [self._now(j) for j in range(len(self.graphs)) if j != i]
        return rest[0].replace({k: _mean([g.tensors[k] for g in rest]) for k in rest[0].tensors})

    def _ascent(self, i: int) -> Ascent:
        return Ascent(self._others(i), self.graphs[i], self.permutations[i], self.generator)

    def round_by_network(self) -> bool:
        """Each network in random order matches the mean of the others, all its groups; whether anything moved."""
        moved = False
        for i in torch.randperm(len(self.graphs), generator=self.generator).tolist():
            run = self._ascent(i)
            run.climb(100, 1e-7, step=lambda **_: None)
            moved |= len(run.history) > 1
            self.permutations[i] = run.permutation
        return moved

    def round_by_group(self) -> bool:
        """Group after group, each network matches the others in that group alone; whether anything moved."""
        moved = False
        for unit in range(len(units(self.graphs[0].spec))):
            for i in torch.randperm(len(self.graphs), generator=self.generator).tolist():
                run = self._ascent(i)
                if run.visit(run.units[unit], 1e-7 * abs(run.objective)):
                    moved, self.permutations[i] = True, run.permutation
        return moved

    def agreement(self) -> float:
        """Σ over pairs of ⟨Uᵢ vᵢ, Uⱼ vⱼ⟩ = (‖Σᵢ Uᵢ vᵢ‖² − Σᵢ ‖vᵢ‖²) / 2."""
        graphs = [self._now(i) for i in range(len(self.graphs))]
        total = 0.0
        for k in counted(graphs[0]):
            stacked = torch.stack([g.tensors[k].detach().double() for g in graphs])
            total += float((stacked.sum(0).square().sum() - stacked.square().sum()) / 2)
        return total


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack([t.detach() for t in tensors]).mean(0) if tensors[0].is_floating_point() else tensors[0]
