r"""Codes of pinned nodes from what the networks themselves do with them.

Nobody knows what an input *is*: a pixel of a flattened image, a token, a column of a table. But two trained networks
read it with their weights. Stack what all of them do with a pinned group of d elements,

.. math:: M = \begin{pmatrix} W_a / \lVert W_a \rVert \\ W_b / \lVert W_b \rVert \end{pmatrix} \in \mathbb R^{rows
          \times d}, \qquad M = U \Sigma V^\top, \qquad
          \text{codes} = \sqrt{d}\; V_{:,\,1 \dots k}\; (\Sigma / \sigma_1)^{1/2} .

M's right singular vectors do not change when rows are permuted or the networks swapped, and follow a permutation of the
elements: an aligner that uses them is equivariant, and blind to order and meaning of the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..network import Network, stack_of

WHOLE = 512
"""Gram matrices up to this size are diagonalised whole and in batches; of larger ones only the leading vectors."""
EXACT = 2**24
"""Entries of M up to which it is multiplied in float64."""
SHARP, BLURRED = 1e-9, 1e-5
"""Relative gap of eigenvalues (and skewness of vectors) below which numbers cannot tell them apart."""


@torch.no_grad()
def spectral_codes(sides: Sequence[Sequence[Network]], size: int) -> dict[str, Tensor]:
    """Codes of every pinned group, shared by the networks that belong together.

    A singular vector is known up to its sign: that of Σv³ is taken to be positive. Vectors whose singular values
    coincide, or that are as symmetric as to have no sign, are left out: which ones a solver returns is chance.

    Args:
        sides: The networks; the k-th of every side belong together (a pair: two sides). One side, one architecture.
        size: Number of codes per element; zeros where M has fewer singular vectors.

    Shapes:
        - **output:** group name → ``[K, d, size]``, without K for single networks
    """
    codes = {}
    for group in sides[0][0].spec.groups.values():
        if group.pinned:
            rows = [r for side in sides for r in _rows(side, group.name)]
            like = sides[0][0].like
            lead = (len(sides[0]),) if len(sides[0]) > 1 else ()
            found = _codes(rows, size) if rows else like.new_zeros(*lead, group.size, 0)
            codes[group.name] = pad(found, (0, size - found.shape[-1]))
    return codes


def _rows(side: Sequence[Network], group: str) -> Iterator[Tensor]:
    """What one side does with a group: ``[..., rows, d]`` from every block at it."""
    for block in side[0].spec.blocks:
        if block.source is None or block.runs > 1 or group not in (block.source, block.target):
            continue
        view = block.view(stack_of(side, block.param))  # [..., target, source, taps]
        for name, dim in ((block.source, -2), (block.target, -3)):
            if name == group:
                yield view.movedim(dim, -1).flatten(-3, -2)


def signed(codes: Mapping[str, Tensor], draw: torch.Generator) -> dict[str, Tensor]:
    """The same codes with a random sign for every vector, one for all pairs, however they are batched.

    Which of v and −v is taken says nothing of the networks: learning from random ones keeps a learner from relying on
    them, and the mean of its answers to several is better than its answer to one.
    """
    out = {}
    for name, c in codes.items():
        coins = torch.randint(0, 2, c.shape[-1:], generator=draw) * 2 - 1
        out[name] = c * coins.to(c)
    return out


def _codes(rows: Sequence[Tensor], size: int) -> Tensor:
    """``[..., d, k]``, k ≤ size."""
    exact = sum(r.numel() for r in rows) <= EXACT or rows[0].dtype == torch.float64
    rows = [r.double() if exact else r.float() for r in rows]
    norms = [torch.linalg.matrix_norm(r, keepdim=True).clamp_min(1e-30) for r in rows]
    values, vectors = _leading([r / norm for r, norm in zip(rows, norms, strict=True)], size + 1)
    tolerance = SHARP if exact else BLURRED
    kept = min(size, vectors.shape[-1])
    vectors = vectors[..., :kept]
    cubes = vectors**3
    skew = cubes.sum(-2) / cubes.abs().sum(-2).clamp_min(1e-30)
    weight = (values / values[..., :1].clamp_min(1e-30)).clamp_min(0)
    told = _apart(weight, tolerance)[..., :kept] & (skew.abs() > tolerance)
    sign = torch.where(told, skew.sign(), 0.0)
    return vectors * (sign * weight[..., :kept] ** 0.25 * vectors.shape[-2] ** 0.5)[..., None, :]


def _apart(weight: Tensor, tolerance: float) -> Tensor:
    """Which of the falling eigenvalues (relative to the first) differ from both neighbours and from zero."""
    gaps = weight[..., :-1] - weight[..., 1:]
    above, below = pad(gaps, (1, 0), value=1.0), pad(gaps, (0, 1), value=1.0)
    return (torch.minimum(above, below) > tolerance) & (weight > tolerance)


def _leading(rows: Sequence[Tensor], count: int) -> tuple[Tensor, Tensor]:
    """Leading eigenvalues ``[..., k]`` and eigenvectors ``[..., d, k]`` of MᵀM, falling, by the smaller Gram matrix."""
    d = rows[0].shape[-1]
    if sum(r.shape[-2] for r in rows) >= d:
        return _eigenvectors(torch.stack([r.mT @ r for r in rows]).sum(0), count)
    m = torch.cat(list(rows), dim=-2)
    values, left = _eigenvectors(m @ m.mT, count)
    vectors = (m.mT.to(left) if m.numel() <= EXACT else m.mT) @ left.to(m.dtype)
    return values, (vectors / torch.linalg.vector_norm(vectors, dim=-2, keepdim=True).clamp_min(1e-30)).to(left)


def _eigenvectors(gram: Tensor, count: int) -> tuple[Tensor, Tensor]:
    gram, n = gram.double(), gram.shape[-1]
    if n <= WHOLE:
        values, vectors = torch.linalg.eigh(gram)
        return values.flip(-1)[..., :count], vectors.flip(-1)[..., :count]
    from scipy.linalg import eigh

    found = [eigh(g, subset_by_index=(max(n - count, 0), n - 1)) for g in gram.reshape(-1, n, n).cpu().numpy()]
    values, vectors = (torch.stack([torch.from_numpy(pair[k].copy()) for pair in found]) for k in (0, 1))
    values, vectors = values.flip(-1).to(gram), vectors.flip(-1).to(gram)
    return values.reshape(*gram.shape[:-2], -1), vectors.reshape(*gram.shape[:-1], -1)
