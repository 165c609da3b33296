"""From scores to permutations: Sinkhorn (soft, differentiable) and the linear assignment problem (hard).

Scores of a group are a matrix with ``scores[i, j]`` for neuron i of a and neuron j of b. Groups nested in others (the
dims inside attention heads) are solved in two levels: first which block goes to which, then inside each block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from wsgraph import Spec


def sinkhorn(scores: Tensor, temperature: float = 1.0, iterations: int = 20) -> Tensor:
    r"""Nearly doubly stochastic matrices from scores, in log space.

    .. math:: P = \lim \mathrm{cols}\circ\mathrm{rows}\circ\dots \exp(S/\tau)

    Both orders of rows and columns are averaged: sinkhorn(Sᵀ) = sinkhorn(S)ᵀ holds after any number of iterations.

    Args:
        scores: ``[..., n, n]``.
        temperature: τ; the smaller, the closer to a permutation.
        iterations: Number of row and column normalisations.

    Shapes:
        - **output:** ``[..., n, n]``
    """
    logits = scores / temperature
    both = torch.stack([logits, logits.mT])
    for _ in range(iterations):
        both = both - both.logsumexp(dim=-1, keepdim=True)
        both = both - both.logsumexp(dim=-2, keepdim=True)
    soft = both.exp()
    return (soft[0] + soft[1].mT) / 2


def soft_maps(
    spec: Spec, scores: Mapping[str, Tensor], temperature: float = 1.0, iterations: int = 20
) -> dict[str, Tensor]:
    """Doubly stochastic matrix of every group; a nested one's is its parent's times one matrix per pair of blocks."""
    maps: dict[str, Tensor] = {}
    inner: dict[str, Tensor] = {}
    own = dict(scores)
    for name, s in scores.items():
        parent = spec.groups[name].parent
        if parent is not None:
            runs = spec.groups[parent].size
            blocks = _blocks(s, runs)
            inner[name] = sinkhorn(blocks, temperature, iterations)
            gain = (inner[name] * blocks).sum(dim=(-2, -1))
            own[parent] = own[parent] + gain if parent in own else gain
    for name, s in own.items():
        if name not in inner:
            maps[name] = sinkhorn(s, temperature, iterations)
    for name, q in inner.items():
        whole = maps[spec.groups[name].parent][..., None, None] * q  # type: ignore[index]
        maps[name] = whole.transpose(-3, -2).flatten(-4, -3).flatten(-2, -1)
    return {name: maps[name] for name in scores}


def hard_maps(spec: Spec, scores: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The assignment of highest total score in every group, as index tensors on the CPU.

    Rectangular scores (networks of different widths) give −1 for neurons of a that stay alone.
    """
    return hard_maps_of([(spec, scores)])[0]


def hard_maps_of(pairs: Sequence[tuple[Spec, Mapping[str, Tensor]]]) -> list[dict[str, Tensor]]:
    """:func:`hard_maps` of several pairs, moved to the CPU in one piece."""
    flat = [s.detach().flatten() for _, scores in pairs for s in scores.values()]
    if not flat:
        return [{} for _ in pairs]
    values = torch.cat(flat).float().cpu().numpy() if flat[0].dtype != torch.float64 else torch.cat(flat).cpu().numpy()
    if not np.isfinite(values.sum(dtype=np.float64)):
        raise ValueError("scores are not finite: the aligner's parameters or the networks' weights hold NaN or Inf")
    out, start = [], 0
    for spec, scores in pairs:
        host = {}
        for name, s in scores.items():
            host[name] = values[start : start + s.numel()].reshape(tuple(s.shape))
            start += s.numel()
        out.append(_solve(spec, host))
    return out


def _solve(spec: Spec, scores: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    nested = {name: parent for name in scores if (parent := spec.groups[name].parent) is not None}
    own = dict(scores)
    for name, parent in nested.items():
        gain = _block_gains(scores[name], spec.groups[parent].size)
        own[parent] = own[parent] + gain if parent in own else gain
    maps = {name: assign(s) for name, s in own.items() if name not in nested}
    for name, parent in nested.items():
        maps[name] = _assign_nested(scores[name], maps[parent])
    return {name: torch.from_numpy(maps[name]) for name in scores}


def assign(scores: np.ndarray) -> np.ndarray:
    """argmax over assignments of Σ scores[i, idx[i]]; −1 where a row has no partner."""
    rows, columns = linear_sum_assignment(scores, maximize=True)
    index = np.full(scores.shape[0], -1, dtype=np.int64)
    index[rows] = columns
    return index


def _blocks(scores: Tensor, runs: int) -> Tensor:
    """``[n, n]`` → ``[runs, runs, d, d]``."""
    return scores.unflatten(-1, (runs, -1)).unflatten(-3, (runs, -1)).transpose(-3, -2)


def _block_gains(scores: np.ndarray, runs: int) -> np.ndarray:
    """Best total score of matching block h of a with block k of b, for all h and k."""
    blocks = scores.reshape(runs, scores.shape[0] // runs, runs, scores.shape[1] // runs)
    gains = np.empty((runs, runs))
    for h in range(runs):
        for k in range(runs):
            inside = blocks[h, :, k, :]
            gains[h, k] = inside[np.arange(len(inside)), assign(inside)].sum()
    return gains


def _assign_nested(scores: np.ndarray, parent: np.ndarray) -> np.ndarray:
    runs = len(parent)
    d = scores.shape[0] // runs
    index = np.empty(scores.shape[0], dtype=np.int64)
    for h, k in enumerate(parent):
        index[h * d : (h + 1) * d] = k * d + assign(scores[h * d : (h + 1) * d, k * d : (k + 1) * d])
    return index
