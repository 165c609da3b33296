"""Refinement: let matched neighbours speak for a pair of neurons."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from wsgraph import WeightGraph

from .projection import soft_maps


class Refine(nn.Module):
    r"""k unrolled steps that add to each score what the weights to and from already matched neurons say.

    .. math:: S_g \mathrel{+}= \sum_{g' \to g} \alpha\, \hat W_a P_{g'} \hat W_b^\top
              + \sum_{g \to g'} \beta\, \hat W_a^\top P_{g'} \hat W_b

    with rows (columns) of W scaled to length 1, so that a term is a cosine of −1…1, and P the current soft matching
    (identity for pinned groups). α, β > 0 by construction: a negative one would let a network mismatch itself.
    Equivariance and swap symmetry hold term by term.

    Args:
        steps: k.
        temperature: Of the Sinkhorn projection in between.
        iterations: Of the Sinkhorn projection in between.
    """

    def __init__(self, steps: int, temperature: float = 1.0, iterations: int = 10) -> None:
        super().__init__()
        self.temperature, self.iterations = temperature, iterations
        self.raw = nn.Parameter(torch.zeros(steps, 2))

    def forward(self, a: WeightGraph, b: WeightGraph, scores: dict[str, Tensor]) -> dict[str, Tensor]:
        """Refined scores, group name → ``[n, n]``."""
        if any(s.shape[-2] != s.shape[-1] for s in scores.values()):
            raise ValueError("the networks have different widths, which refinement cannot match; use refine=0")
        for alpha, beta in softplus(self.raw):
            soft = soft_maps(a.spec, scores, self.temperature, self.iterations)
            new = dict(scores)
            for (block, wa), (_, wb) in zip(a.blocks, b.blocks, strict=True):
                if block.source is None or block.runs > 1:
                    continue
                wa, wb = (w.to(alpha.dtype) for w in (wa, wb))
                if block.target in scores:
                    new[block.target] = new[block.target] + alpha * _agreement(wa, wb, soft.get(block.source))
                if block.source in scores:
                    told = _agreement(wa.transpose(0, 1), wb.transpose(0, 1), soft.get(block.target))
                    new[block.source] = new[block.source] + beta * told
            scores = new
        return scores


def _agreement(wa: Tensor, wb: Tensor, matching: Tensor | None) -> Tensor:
    """Cosine of each row of a with each row of b under the matching of their columns.

    Shapes:
        - **wa, wb:** ``[n, m, taps]``; **matching:** ``[m, m]``, identity if ``None``; **output:** ``[n, n]``
    """
    wa, wb = (w / w.flatten(1).norm(dim=1).clamp_min(1e-12)[:, None, None] for w in (wa, wb))
    if matching is not None:
        wb = torch.einsum("kl,nlt->nkt", matching, wb)
    return wa.flatten(1) @ wb.flatten(1).T
