"""What is done with every pair, wherever it is done."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..alignment import Alignment
from ..judging.barrier import Barrier, barrier
from ..matching import match
from ..running.outputs import Loss
from .pairs import Pair

Row = dict[str, Any]
Loader = Callable[[str, str], tuple[Any, Any, dict[str, Any]]]
"""From two paths to two networks and what :func:`align.match` needs to know: ``example_input`` or ``spec``."""
Judged = Callable[[], tuple[tuple[Tensor, Tensor], Loss]]
"""Gives inputs and targets, and their loss."""


@dataclass(frozen=True)
class Job:
    """How pairs are aligned and judged; it travels to the workers.

    Attributes:
        load: Opens a pair.
        method: As in :func:`align.match`.
        seed: Of everything drawn, for each pair anew: a result does not depend on what was aligned before.
        judged: What barriers are measured on; nothing: there are none.
        points: Of a barrier's line.
    """

    load: Loader
    method: str
    seed: int = 0
    judged: Judged | None = None
    points: int = 11

    def part(self, numbered: Sequence[tuple[int, Pair]]) -> tuple[list[Row], dict[str, Tensor]]:
        """Rows of the table for some pairs, and their permutations as ``number/group``. On one thread, in silence."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        rows: list[Row] = []
        maps: dict[str, Tensor] = {}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # there would be one of each kind for every pair
                for number, pair in numbered:
                    row, found = self._aligned(pair)
                    rows.append({"pair": number, "a": pair[0], "b": pair[1], "method": self.method, **row})
                    maps |= {f"{number}/{group}": idx.int() for group, idx in found.items()}
        finally:
            torch.set_num_threads(threads)
        return rows, maps

    def _aligned(self, pair: Pair) -> tuple[Row, dict[str, Tensor]]:
        """A pair that cannot be aligned costs no others: its row says why."""
        try:
            a, b, symmetry = self.load(*pair)
            before = match(a, b, "identity", seed=self.seed, **symmetry)
            found = match(a, b, self.method, seed=self.seed, **symmetry)
            return {**_distances(before, found), **self._barriers(a, b, before, found)}, dict(found.maps)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}, {}

    def _barriers(self, a: Any, b: Any, before: Alignment, found: Alignment) -> Row:
        if self.judged is None:
            return {}
        data, loss = self.judged()
        lines: list[Barrier] = [barrier(a, b, loss, data, self.points, alignment=x) for x in (before, found)]
        return {
            "barrier_before": float(lines[0]),
            "barrier": float(lines[1]),
            "loss_a": float(lines[1].loss[-1]),
            "loss_b": float(lines[1].loss[0]),
        }


def _distances(before: Alignment, found: Alignment) -> Row:
    maps = list(found.maps.values())
    return {
        "distance_before": before.distance,
        "distance": found.distance,
        "moved": sum(int((idx != torch.arange(len(idx))).sum()) for idx in maps),
        "neurons": sum(map(len, maps)),
        "converged": found.converged,
        "seconds": found.elapsed,
    }
