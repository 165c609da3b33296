"""Refinement: let matched neighbours speak for a pair of neurons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from wsgraph.blocks import Block
from wsgraph.network import Network, stack_of

from .projection.sinkhorn import soft_maps

LARGE = 2_000_000
"""Weights of a network above which an aligner takes one look at it: no refinement, no other views of the codes."""


class Refine(nn.Module):
    r"""Adds to each score what the weights to and from neurons that are matched already say.

    .. math:: S_g \mathrel{+}= \sum_{g' \to g} \alpha\, \hat W_a P_{g'} \hat W_b^\top
              + \sum_{g \to g'} \beta\, \hat W_a^\top P_{g'} \hat W_b

    with rows (columns) of W scaled to length 1, so that a term is a cosine of −1…1. At first only the weights to pinned
    neighbours count, for which P is the identity: they hold what an embedding of a few numbers must leave out. Then
    follow k steps with all neighbours, P being the current soft matching (not for networks that are :data:`LARGE` or of
    different widths). α, β > 0 by construction: a negative one would let a network mismatch itself. Equivariance and
    swap symmetry hold term by term.

    Args:
        steps: k.
        temperature: Of the Sinkhorn projection in between.
        iterations: Of the Sinkhorn projection in between.
    """

    def __init__(self, steps: int = 0, temperature: float = 1.0, iterations: int = 10) -> None:
        super().__init__()
        self.steps, self.temperature, self.iterations = steps, temperature, iterations
        self.raw = nn.Parameter(torch.zeros(1 + steps, 2))

    def forward(self, a: Sequence[Network], b: Sequence[Network], scores: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Refined scores of K pairs of one architecture, group name → ``[K, n_a, n_b]``."""
        weights, free = softplus(self.raw), a[0].spec.free
        square = all(s.shape[-2] == s.shape[-1] for s in scores.values())
        if not square or sum(t.numel() for t in a[0].tensors.values()) > LARGE:
            weights = weights[:1]
        pinned = {name for name in a[0].spec.groups if name not in {g.name for g in free}}
        out = self._told(a, b, scores, dict.fromkeys(pinned), *weights[0])
        for alpha, beta in weights[1:]:
            soft = soft_maps(a[0].spec, out, self.temperature, self.iterations)
            out = self._told(a, b, out, {**dict.fromkeys(pinned), **soft}, alpha, beta)
        return out

    def _told(
        self,
        a: Sequence[Network],
        b: Sequence[Network],
        scores: Mapping[str, Tensor],
        known: Mapping[str, Tensor | None],
        alpha: Tensor,
        beta: Tensor,
    ) -> dict[str, Tensor]:
        """Scores and what ``known`` neighbours (group name → P, ``None`` for the identity) tell."""
        out = dict(scores)
        for ours, theirs in zip(a[0].spec.blocks, b[0].spec.blocks, strict=True):
            target, source = ours.target, ours.source
            forward, backward = target in out and source in known, source in out and target in known
            if source is None or ours.runs > 1 or not (forward or backward):
                continue
            wa, wb = _weights(a, ours, alpha), _weights(b, theirs, alpha)
            if forward:
                out[target] = out[target] + alpha * _agreement(wa, wb, known[source])
            if backward:
                told = _agreement(wa.transpose(1, 2), wb.transpose(1, 2), known[target])
                out[source] = out[source] + beta * told
        return out


def _weights(networks: Sequence[Network], block: Block, like: Tensor) -> Tensor:
    """``[K, target, source, taps]``."""
    weights = block.view(stack_of(networks, block.param)).to(like)
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
