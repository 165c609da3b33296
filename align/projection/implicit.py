r"""Sinkhorn with an implicit backward pass: the gradient at the fixed point, whatever the number of iterations.

P = diag(u) exp(Z) diag(v) with marginals ρ = P1 and κ = Pᵀ1, all ones at the fixed point. For an incoming gradient G,
with M = P ∘ G,

.. math:: \begin{pmatrix} \mathrm{diag}\,\rho & P \\ P^\top & \mathrm{diag}\,\kappa \end{pmatrix}
          \begin{pmatrix} r \\ c \end{pmatrix} = \begin{pmatrix} M 1 \\ M^\top 1 \end{pmatrix}, \qquad
          \frac{\partial}{\partial Z} = M - P \circ (r 1^\top + 1 c^\top).

The system is singular along (1, −1) and nearly so for hard P. Eliminating r leaves the Laplacian of W = Pᵀ diag(1/ρ) P,
(diag(W1) − W) c = Mᵀ1 − Pᵀ(M1/ρ). Its diagonal is summed from the other entries, so that nothing cancels, and the
direction that does not matter is filled up at the Laplacian's own scale. Taking ρ and κ as they are, not as ones, keeps
the gradient right where hard P would need 10⁵ iterations to reach the fixed point.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from wsgraph import Spec

from .sinkhorn import normalise

RIDGE = 1e-12
"""Relative to the mean of the Laplacian's diagonal."""
FLOOR = 1e-18
"""Smaller weights between columns are rounding: P is hard there and its gradient zero."""


class _Sinkhorn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, iterations: int) -> Tensor:
        soft = normalise(logits.double(), iterations).exp()
        ctx.save_for_backward(soft)
        return soft.to(logits.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (p,) = ctx.saved_tensors
        n = p.shape[-1]
        m = p * grad.double()
        marginal = p.sum(-1, keepdim=True)
        rows, columns = m.sum(-1, keepdim=True) / marginal, m.sum(-2).unsqueeze(-1)
        off = p.mT @ (p / marginal) * (1 - torch.eye(n, dtype=p.dtype, device=p.device))
        degree = off.sum(-1)
        scale = degree.mean(-1)[..., None, None].clamp_min(FLOOR)
        system = torch.diag_embed(degree + RIDGE * scale.squeeze(-1) + FLOOR) - off + scale / n
        c = torch.linalg.solve(system, columns - p.mT @ rows)
        r = rows - p @ c / marginal
        return (m - p * (r + c.mT)).to(grad.dtype), None


def sinkhorn_implicit(scores: Tensor, temperature: float = 1.0, iterations: int = 100) -> Tensor:
    """As :func:`align.projection.sinkhorn.sinkhorn`, differentiated implicitly; needs enough iterations to converge.

    Shapes:
        - **scores, output:** ``[..., n, n]``
    """
    return _Sinkhorn.apply(scores / temperature, iterations)  # type: ignore[no-untyped-call]


def implicit_maps(
    spec: Spec, scores: Mapping[str, Tensor], temperature: float = 1.0, iterations: int = 100
) -> dict[str, Tensor]:
    """Doubly stochastic matrix of every group, differentiated implicitly."""
    nested = [name for name in scores if spec.groups[name].parent is not None]
    if nested:
        raise ValueError(f"implicit differentiation does not know nested groups ({nested}); use gradient='unrolled'")
    return {name: sinkhorn_implicit(s, temperature, iterations) for name, s in scores.items()}
