r"""Sinkhorn with an implicit backward pass: the gradient at the fixed point, whatever the number of iterations.

At the fixed point P = diag(u) exp(Z) diag(v) has unit marginals. For an incoming gradient G, with M = P ∘ G,

.. math:: \begin{pmatrix} I & P \\ P^\top & I \end{pmatrix} \begin{pmatrix} r \\ c \end{pmatrix}
          = \begin{pmatrix} M 1 \\ M^\top 1 \end{pmatrix}, \qquad
          \frac{\partial}{\partial Z} = M - P \circ (r 1^\top + 1 c^\top).

The system is singular along (1, −1) and nearly so for hard P. Eliminating r leaves (I − PᵀP) c = Mᵀ1 − PᵀM1, which is
solved in float64 with 11ᵀ/n added (the direction that does not matter) and a small ridge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from wsgraph import Spec

RIDGE = 1e-8


class _Sinkhorn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, iterations: int) -> Tensor:
        log = logits.double()
        for _ in range(iterations):
            log = log - log.logsumexp(dim=-1, keepdim=True)
            log = log - log.logsumexp(dim=-2, keepdim=True)
        soft = log.exp()
        ctx.save_for_backward(soft)
        return soft.to(logits.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (p,) = ctx.saved_tensors
        n = p.shape[-1]
        m = p * grad.double()
        rows, columns = m.sum(-1, keepdim=True), m.sum(-2).unsqueeze(-1)
        eye = torch.eye(n, dtype=p.dtype, device=p.device)
        system = (1 + RIDGE) * eye - p.mT @ p + 1 / n
        c = torch.linalg.solve(system, columns - p.mT @ rows)
        r = rows - p @ c
        return (m - p * (r + c.mT)).to(grad.dtype), None


def sinkhorn_implicit(scores: Tensor, temperature: float = 1.0, iterations: int = 100) -> Tensor:
    """As :func:`align.projection.sinkhorn`, differentiated implicitly; needs enough iterations to converge.

    Shapes:
        - **scores, output:** ``[..., n, n]``
    """
    return _Sinkhorn.apply(scores / temperature, iterations)


def implicit_maps(
    spec: Spec, scores: Mapping[str, Tensor], temperature: float = 1.0, iterations: int = 100
) -> dict[str, Tensor]:
    """Doubly stochastic matrix of every group, differentiated implicitly."""
    nested = [name for name in scores if spec.groups[name].parent is not None]
    if nested:
        raise ValueError(f"implicit differentiation does not know nested groups ({nested}); use gradient='unrolled'")
    return {name: sinkhorn_implicit(s, temperature, iterations) for name, s in scores.items()}
