"""What is done with every pair, wherever it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wsgraph.quiet import quiet

from ..alignment import Alignment
from ..judging.barrier import Barrier, barrier
from ..matching import match
from ..methods.learned import pretrained
from ..running.networks import as_graph
from ..running.outputs import Loss
from .pairs import Pair

Row = dict[str, Any]
Numbered = Sequence[tuple[int, Pair]]
"""Pairs and their numbers."""
Loader = Callable[[str, str], tuple[Any, Any, dict[str, Any]]]
"""From two paths to two networks and what :func:`align.match` needs to know: ``example_input`` or ``spec``."""
Judged = Callable[[], tuple[tuple[Tensor, Tensor], Loss]]
"""Gives inputs and targets, and their loss."""
TOGETHER, SMALL = "deep_align", 200_000
"""The method that takes many pairs at once, and bytes of a file up to which that is faster."""


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

    def part(self, numbered: Numbered) -> tuple[list[Row], dict[str, Tensor]]:
        """Rows of the table for some pairs, and their permutations as ``number/group``. On one thread, in silence."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        rows: list[Row] = []
        maps: dict[str, Tensor] = {}
        try:
            with quiet():  # there would be one warning of each kind for every pair
                for batch in self._batches(numbered):
                    for (number, pair), (row, found) in zip(batch, self._aligned(batch), strict=True):
                        rows.append({"pair": number, "a": pair[0], "b": pair[1], "method": self.method, **row})
                        maps |= {f"{number}/{group}": idx.int() for group, idx in found.items()}
        finally:
            torch.set_num_threads(threads)
        return rows, maps

    def _batches(self, numbered: Numbered) -> list[Numbered]:
        """The learned aligner takes many pairs of small networks at once in far less time than one by one."""
        files = {Path(path) for _, pair in numbered for path in pair}
        small = all(path.is_file() and path.stat().st_size <= SMALL for path in files)
        return [numbered] if small and self.method == TOGETHER else [[one] for one in numbered]

    def _aligned(self, batch: Numbered) -> list[tuple[Row, dict[str, Tensor]]]:
        """Rows and permutations. A pair that cannot be aligned costs no others: its row says why."""
        opened = [_tried(self.load, *pair) for _, pair in batch]
        found = self._at_once(opened) or [_tried(self._match, one) for one in opened]
        rows = [_tried(self._row, one, alignment) for one, alignment in zip(opened, found, strict=True)]
        return [
            ({"error": f"{type(row).__name__}: {row}"}, {}) if isinstance(row, Exception) else (row, dict(one.maps))
            for row, one in zip(rows, found, strict=True)
        ]

    def _at_once(self, opened: Sequence[Any]) -> list[Alignment]:
        """Alignments by one call; none where that is no good, or where it fails for one pair and hence for all."""
        if len(opened) == 1 or any(isinstance(one, Exception) for one in opened):
            return []
        found = _tried(_learned, opened)
        return [] if isinstance(found, Exception) else found

    def _match(self, one: Any) -> Alignment:
        if isinstance(one, Exception):
            raise one
        a, b, symmetry = one
        return match(a, b, self.method, seed=self.seed, **symmetry)

    def _row(self, one: Any, found: Alignment | Exception) -> Row:
        if isinstance(found, Exception):
            raise found
        a, b, symmetry = one
        before = match(a, b, "identity", **symmetry)
        return {**_distances(before, found), **self._barriers(a, b, before, found)}

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


def _learned(opened: Sequence[Any]) -> list[Alignment]:
    left, right = ([as_graph(one[k], **one[2]) for one in opened] for k in (0, 1))
    return pretrained(left[0])(left, right)


def _tried(work: Callable[..., Any], *args: Any) -> Any:
    """What comes of it, be it an exception."""
    try:
        return work(*args)
    except Exception as error:
        return error


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
