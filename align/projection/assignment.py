"""From scores to permutations: Sinkhorn (soft, differentiable) and the linear assignment problem (hard).

Scores of a group are a matrix with ``scores[i, j]`` for neuron i of a and neuron j of b. Groups nested in others (the
dims inside attention heads) are solved level by level: first which block goes to which, then inside each block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
    own, inner = dict(scores), {}
    for name in nested_first(spec, scores):
        parent = spec.groups[name].parent
        if parent is not None:
            blocks = _blocks(own[name], spec.groups[parent].size)
            inner[name] = sinkhorn(blocks, temperature, iterations)
            gain = (inner[name] * blocks).sum(dim=(-2, -1))
            own[parent] = own[parent] + gain if parent in own else gain
    maps: dict[str, Tensor] = {}
    for name in reversed(nested_first(spec, own)):
        if name in inner:
            whole = maps[spec.groups[name].parent or ""][..., None, None] * inner[name]
            maps[name] = whole.transpose(-3, -2).flatten(-4, -3).flatten(-2, -1)
        elif spec.groups[name].pinned:
            maps[name] = torch.eye(own[name].shape[-1], device=own[name].device, dtype=own[name].dtype)
        else:
            maps[name] = sinkhorn(own[name], temperature, iterations)
    return {name: maps[name] for name in scores}


def nested_first(spec: Spec, names: Iterable[str]) -> list[str]:
    """Groups and all they are nested in, from the inside out."""
    all_of_them = dict.fromkeys(outer for name in names for outer in spec.lineage(name))
    return sorted(all_of_them, key=lambda name: -len(list(spec.lineage(name))))


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
    own, blocks = dict(scores), {}
    for name in nested_first(spec, scores):
        parent = spec.groups[name].parent
        if parent is not None:
            n = spec.groups[parent].size
            blocks[name] = _block_views(own[name], own[parent].shape if parent in own else (n, n))
            gain = _block_gains(blocks[name])
            own[parent] = own[parent] + gain if parent in own else gain
    maps: dict[str, np.ndarray] = {}
    for name in reversed(nested_first(spec, own)):
        if name in blocks:
            maps[name] = _assign_nested(blocks[name], maps[spec.groups[name].parent or ""])
        else:
            maps[name] = np.arange(len(own[name])) if spec.groups[name].pinned else assign(own[name])
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


def _block_views(scores: np.ndarray, runs: tuple[int, ...]) -> np.ndarray:
    """``[n_a, n_b]`` → ``[runs_a, runs_b, d_a, d_b]``."""
    rows, columns = runs
    return scores.reshape(rows, scores.shape[0] // rows, columns, -1).swapaxes(1, 2)


def _block_gains(blocks: np.ndarray) -> np.ndarray:
    """Best total score of matching block h of a with block k of b, for all h and k."""
    gains = np.empty(blocks.shape[:2])
    for h, k in np.ndindex(gains.shape):
        gains[h, k] = blocks[h, k][linear_sum_assignment(blocks[h, k], maximize=True)].sum()
    return gains


def _assign_nested(blocks: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Inside every pair of matched blocks; −1 in blocks that stay alone."""
    rows, width = blocks.shape[2:]
    index = np.full((len(parent), rows), -1, dtype=np.int64)
    for h, k in enumerate(parent):
        if k >= 0:
            inside = assign(blocks[h, k])
            index[h] = np.where(inside >= 0, k * width + inside, -1)
    return index.flatten()
