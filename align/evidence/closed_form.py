"""Evidence: scores of neurons from the weights alone, beside what was learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from wsgraph.network import Network

from ..running.covariance import covariances, standardised

LARGE = 2_000_000
"""Weights of a network above which an aligner takes one look at it: nothing passes hidden layers, no other views."""


class Evidence(nn.Module):
    r"""Adds to each score how alike activations and gradients would be, in units of their noise:

    .. math:: S_g \mathrel{+}= \alpha_g\, z(C_g) + \beta_g\, z(G_g)

    with the covariances of :mod:`align.running.covariance`. (α, β) > 0 are learned functions of both amounts of noise;
    a negative one would let a network mismatch itself. Equivariance and swap symmetry hold term by term.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(2, 2)
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def forward(self, a: Sequence[Network], b: Sequence[Network], scores: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Scores with the evidence, of K pairs of one architecture: group name → ``[K, n_a, n_b]``."""
        deep = sum(t.numel() for t in a[0].tensors.values()) <= LARGE
        kind = a[0].like.device.type
        known = torch.amp.is_autocast_available(kind)
        with torch.autocast(kind, enabled=False) if known else nullcontext():  # correlations need all digits
            told = [standardised(found) for found in covariances(a, b, deep)]
            return {name: s + self._terms(name, told).to(s.dtype) for name, s in scores.items()}

    def _terms(self, group: str, told: Sequence[Mapping[str, tuple[Tensor, Tensor]]]) -> Tensor:
        """``[K, n_a, n_b]``, or 0 without any evidence."""
        known = [z[group] for z in told if group in z]
        if not known:
            return self.gate.bias.new_zeros(())
        silence = torch.ones_like(known[0][1])
        noise = torch.stack([z[group][1] if group in z else silence for z in told], dim=1)
        weights = softplus(self.gate(noise.log().to(self.gate.weight))).T[..., None, None]
        terms = [w * z[group][0].to(w) for w, z in zip(weights, told, strict=True) if group in z]
        return torch.stack(terms).sum(0)
