"""Hard permutations: the linear assignment problem of every group.

Scores of a group are a matrix with ``scores[i, j]`` for neuron i of a and neuron j of b. Groups nested in others (the
dims inside attention heads) are solved level by level: first which run goes to which, then inside each run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from wsgraph import Spec

from .nesting import nested_first


def hard_maps(spec: Spec, scores: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The assignment of highest total score in every group, as index tensors on the CPU.

    Rectangular scores (networks of different widths) give −1 for neurons of a that stay alone.
    """
    return hard_maps_of([(spec, scores)])[0]


def hard_maps_of(pairs: Sequence[tuple[Spec, Mapping[str, Tensor]]]) -> list[dict[str, Tensor]]:
    """:func:`hard_maps` of several pairs."""
    flat = iter(to_host([s.detach() for _, scores in pairs for s in scores.values()]))
    out = []
    for spec, scores in pairs:
        host = {name: next(flat) for name in scores}
        if not all(np.isfinite(s.sum(dtype=np.float64)) for s in host.values()):
            raise ValueError("scores are not finite: the aligner's parameters or the networks' weights hold NaN or Inf")
        out.append(_solve(spec, host))
    return out


def to_host(matrices: Sequence[Tensor]) -> list[np.ndarray]:
    """Matrices as numpy arrays: from a GPU moved in one piece, on the CPU not copied."""
    matrices = [m if m.dtype in (torch.float32, torch.float64) else m.float() for m in matrices]
    if all(m.device.type == "cpu" for m in matrices):
        return [m.numpy() for m in matrices]
    whole = torch.cat([m.flatten() for m in matrices]).cpu()
    sizes = [m.numel() for m in matrices]
    return [part.view(m.shape).numpy() for part, m in zip(whole.split(sizes), matrices, strict=True)]


def _solve(spec: Spec, scores: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    own, runs = dict(scores), {}
    for name in nested_first(spec, scores):
        parent = spec.groups[name].parent
        if parent is not None:
            n = spec.groups[parent].size
            runs[name] = _by_runs(own[name], own[parent].shape if parent in own else (n, n))
            gain = _gains(runs[name])
            own[parent] = own[parent] + gain if parent in own else gain
    maps: dict[str, np.ndarray] = {}
    for name in reversed(nested_first(spec, own)):
        if name in runs:
            maps[name] = _assign_nested(runs[name], maps[spec.groups[name].parent or ""])
        else:
            maps[name] = np.arange(len(own[name])) if spec.groups[name].pinned else assign(own[name])
    return {name: torch.from_numpy(maps[name]) for name in scores}


def _partners(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the best assignment."""
    from scipy.optimize import linear_sum_assignment  # here, for it takes a while to import

    rows, columns = linear_sum_assignment(scores, maximize=True)
    return rows, columns


def assign(scores: np.ndarray) -> np.ndarray:
    """argmax over assignments of Σ scores[i, idx[i]]; −1 where a row has no partner."""
    rows, columns = _partners(scores)
    index = np.full(scores.shape[0], -1, dtype=np.int64)
    index[rows] = columns
    return index


def _by_runs(scores: np.ndarray, counts: tuple[int, ...]) -> np.ndarray:
    """``[n_a, n_b]`` → ``[runs_a, runs_b, d_a, d_b]``."""
    rows, columns = counts
    return scores.reshape(rows, scores.shape[0] // rows, columns, -1).swapaxes(1, 2)


def _gains(runs: np.ndarray) -> np.ndarray:
    """Best total score of matching run h of a with run k of b, for all h and k."""
    gains = np.empty(runs.shape[:2])
    for h, k in np.ndindex(gains.shape):
        gains[h, k] = runs[h, k][_partners(runs[h, k])].sum()
    return gains


def _assign_nested(runs: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Inside every pair of matched runs; −1 in runs that stay alone."""
    rows, width = runs.shape[2:]
    index = np.full((len(parent), rows), -1, dtype=np.int64)
    for h, k in enumerate(parent):
        if k >= 0:
            inside = assign(runs[h, k])
            index[h] = np.where(inside >= 0, k * width + inside, -1)
    return index.flatten()
