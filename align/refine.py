"""Refinement: let matched neighbours speak for a pair of neurons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from wsgraph.blocks import Block
from wsgraph.network import Network, stack_of

from .projection.sinkhorn import soft_maps


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
        self.raw = nn.Parameter(torch.zeros(steps + 1, 2))

    def forward(self, a: Sequence[Network], b: Sequence[Network], scores: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Refined scores of K pairs of one architecture, group name → ``[K, n, n]``."""
        if any(s.shape[-2] != s.shape[-1] for s in scores.values()):
            raise ValueError("the networks have different widths, which refinement cannot match; use refine=0")
        spec = a[0].spec
        blocks = [x for x in spec.blocks if x.source is not None and x.runs == 1 and {x.source, x.target} & {*scores}]
        left, right = ({x: _rows(n, x, self.raw.dtype) for x in blocks} for n in (a, b))
        for k, (alpha, beta) in enumerate(softplus(self.raw)):
            soft = soft_maps(spec, scores, self.temperature, self.iterations) if k else {}
            new = dict(scores)
            for block in blocks:
                if not k and not (spec.groups[block.source].pinned or spec.groups[block.target].pinned):
                    continue  # nothing is matched yet: only what never moves can be compared
                wa, wb = left[block], right[block]
                if block.target in scores:
                    new[block.target] = new[block.target] + alpha * _agreement(wa, wb, soft.get(block.source or ""))
                if block.source in scores:
                    told = _agreement(wa.transpose(1, 2), wb.transpose(1, 2), soft.get(block.target))
                    new[block.source] = new[block.source] + beta * told
            scores = new
        return dict(scores)


def _rows(networks: Sequence[Network], block: Block, dtype: torch.dtype) -> Tensor:
    weights = block.view(stack_of(networks, block.param)).to(dtype)
    return weights if len(networks) > 1 else weights[None]


def _agreement(wa: Tensor, wb: Tensor, matching: Tensor | None) -> Tensor:
    """Cosine of each row of a with each row of b under the matching of their columns.

    Shapes:
        - **wa, wb:** ``[K, n, m, taps]``; **matching:** ``[K, m, m]``, identity if ``None``; **output:** ``[K, n, n]``
    """
    wa, wb = (w / w.flatten(2).norm(dim=2).clamp_min(1e-12)[..., None, None] for w in (wa, wb))
    if matching is not None:
        wb = torch.einsum("zkl,znlt->znkt", matching, wb)
    return wa.flatten(2) @ wb.flatten(2).mT
