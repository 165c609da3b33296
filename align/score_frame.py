r"""Many networks in one frame by the scores of a learned aligner.

With the scores Sᵢⱼ of all pairs, the permutations Uᵢ into the frame are to maximise

.. math:: \sum_{i<j} \langle U_i^\top U_j, S_{ij} \rangle .

Given all others, the best Uᵢ is one assignment per group, so networks move in turn until nothing does. Where to start
and in which turn is told by the scores alone: the order in which networks are listed plays no part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from wsgraph import Permutation, WeightGraph

from .projection.assignment import hard_maps, hard_maps_of

if TYPE_CHECKING:
    from .deep_align import DeepAlign

SLACK = 1e-6
"""Gains below this share of a network's total are rounding."""
Maps = Mapping[str, Tensor]


def to_first(graphs: Sequence[WeightGraph], aligner: DeepAlign) -> tuple[Permutation, ...]:
    """How each network must be permuted to match the first."""
    spec = graphs[0].spec
    scores = aligner.among(graphs, [(0, j) for j in range(1, len(graphs))])
    found = hard_maps_of([(spec, s) for s in scores])
    return (Permutation.identity(spec), *(Permutation(spec, maps) for maps in found))


class ScoreFrame:
    """All networks under their current permutations. Every accepted move raises the agreement.

    Args:
        graphs: Networks of one architecture.
        aligner: Tells what speaks for matching which neurons.
    """

    def __init__(self, graphs: Sequence[WeightGraph], aligner: DeepAlign) -> None:
        self.spec, self.count = graphs[0].spec, len(graphs)
        pairs = list(combinations(range(self.count), 2))
        self.scores = dict(zip(pairs, aligner.among(graphs, pairs), strict=True))
        self.scores |= {(j, i): {name: s.mT for name, s in self.scores[i, j].items()} for i, j in pairs}
        alone = {(i, j): hard_maps(self.spec, s) for (i, j), s in self.scores.items()}
        liked = [sum(_total(self.scores[i, j], alone[i, j]) for j in self._others(i)) for i in range(self.count)]
        self.turns = sorted(range(self.count), key=lambda i: -liked[i])
        first = self.turns[0]  # the network that all others resemble most
        here: Maps = Permutation.identity(self.spec).maps
        self.maps: list[Maps] = [here if i == first else alone[first, i] for i in range(self.count)]

    @property
    def permutations(self) -> list[Permutation]:
        """Uᵢ of each network."""
        return [Permutation(self.spec, maps) for maps in self.maps]

    def _others(self, i: int) -> list[int]:
        return [j for j in range(self.count) if j != i]

    def _told(self, i: int) -> dict[str, Tensor]:
        """What all others together say of network i: ``[place in the frame, neuron of i]`` of every group."""
        each = [{g: s[self.maps[j][g]] for g, s in self.scores[j, i].items()} for j in self._others(i)]
        return {g: torch.stack([told[g] for told in each]).sum(0) for g in each[0]}

    def round(self) -> bool:
        """Each network in turn matches all others; whether anything moved."""
        moved = False
        for i in self.turns:
            told = self._told(i)
            now, best = _total(told, self.maps[i]), hard_maps(self.spec, told)
            if _total(told, best) > now + SLACK * abs(now):
                moved, self.maps[i] = True, best
        return moved

    def agreement(self) -> float:
        """Σ over pairs of ⟨Uᵢᵀ Uⱼ, Sᵢⱼ⟩."""
        return sum(_total(self._told(i), self.maps[i]) for i in range(self.count)) / 2


def _total(scores: Mapping[str, Tensor], maps: Maps) -> float:
    """Scores of all matched neurons."""
    return sum(float(s[torch.arange(len(maps[g])), maps[g]].sum()) for g, s in scores.items())
