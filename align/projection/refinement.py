r"""Refinement: scores that have seen the average of the two networks, from the graphs alone.

Who is best matched with whom cannot be told neuron by neuron: what one match does wrong, another can make good, and
only the average shows it. Of plain MLPs a graph tells all that is needed to run them, so that an answer can be
rehearsed: some steps of gradient descent on the scores S lower

.. math:: \mathrm{E}_x\, \mathrm{KL}\Big(\tfrac12 \big(p_a(x) + p_b(x)\big) \,\Big\|\, p_{(a + P b)/2}(x)\Big), \qquad
          P = \mathrm{Sinkhorn}(S),

on inputs that both networks dream of: :math:`x = \sum_k z_k \sigma_k v_k` with white z and the singular values and
vectors of what both first layers read (:mod:`wsgraph.nn.spectral`). These do not depend on the order of neurons, of
inputs, or of the two networks, and z is the same in every call, so that all symmetries of the scores stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from wsgraph.network import Network
from wsgraph.nn.spectral import spectral_codes

from ..running.consensus import divergence
from ..running.perceptron import Dense, forward, is_perceptron, layers_of
from .assignment import hard_maps_of
from .sinkhorn import sharpened, sinkhorn

SAMPLES, BATCH, DIRECTIONS = 2048, 256, 256
"""Dreams, dreams per step, singular vectors that they vary along."""
RATE, PROJECTIONS = 0.1, 5
"""Learning rate of the scores; Sinkhorn iterations per step."""
WIDEST = 2**18
"""Entries of all scores above which a pair is not optimised on dreams: layers of 512 take seconds and gain nothing."""
WORTH = 0.99
"""What the average's distance must fall to for refined scores to take the place of the others."""
ROUNDING = 10
"""Distances below so many ulps of 1 are none."""


def can_refine(a: Network, b: Network) -> bool:
    """Whether both are known to be plain MLPs, of one width and not too wide."""
    sizes = [[g.size for g in n.spec.groups.values()] for n in (a, b)]
    plain = sizes[0] == sizes[1] and is_perceptron(a.spec) and is_perceptron(b.spec)
    return plain and 0 < sum(g.size**2 for g in a.spec.free) <= WIDEST


def refined(a: Sequence[Network], b: Sequence[Network], scores: Mapping[str, Tensor], steps: int) -> dict[str, Tensor]:
    """Scores of K pairs of one architecture after some steps; as they were where that does not help.

    Args:
        a: The reference networks; see :func:`can_refine`.
        b: Those to be permuted.
        scores: Group name → ``[K, n, n]``.
        steps: How many.
    """
    kind = a[0].like.device.type
    off = torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()
    with torch.inference_mode(False), torch.enable_grad(), off:
        middle = _Middle(a, b)
        start = {name: s.detach().to(middle.dtype, copy=True) for name, s in scores.items()}
        before = middle.of_scores(start)
        if (before < ROUNDING * torch.finfo(middle.dtype).eps).all():  # copies of one another
            return dict(scores)
        logits = {name: sharpened(s).requires_grad_() for name, s in start.items()}
        optimiser = torch.optim.Adam(list(logits.values()), lr=RATE)
        for k in range(steps):
            maps = {name: sinkhorn(z, iterations=PROJECTIONS) for name, z in logits.items()}
            optimiser.zero_grad()
            middle.distance(maps, k).sum().backward()
            optimiser.step()
        end = {name: z.detach() for name, z in logits.items()}
        better = middle.of_scores(end) + ROUNDING * torch.finfo(middle.dtype).eps < WORTH * before
    return {name: torch.where(better[:, None, None], end[name], s).to(scores[name]) for name, s in start.items()}


class _Middle:
    """The averages of K pairs, and how far their answers are from what both networks say."""

    @torch.no_grad()
    def __init__(self, a: Sequence[Network], b: Sequence[Network]) -> None:
        self.spec = a[0].spec
        left, right = layers_of(a), layers_of(b)
        along = _directions(a, b, left[0].source)
        self.a, self.b = (_dreaming(layers, along) for layers in (left, right))
        like = self.a[0].weight
        self.dtype, self.dreams = like.dtype, _noise()[:, : like.shape[-1]].to(like)
        self.answers = self._answers()

    def _answers(self) -> Tensor:
        said = [forward(layers, self.dreams) for layers in (self.a, self.b)]
        if self.classes:
            said = [s.softmax(-1) for s in said]
        return (said[0] + said[1]) / 2

    @property
    def classes(self) -> bool:
        """Networks of two outputs or more are taken for classifiers, as in :mod:`align.running.consensus`."""
        return self.a[-1].bias.shape[-1] > 1

    def distance(self, maps: Mapping[str, Tensor], batch: int | None = None) -> Tensor:
        """``[K]``, on all dreams or on a batch of them.

        A soft P loses something of what it moves. So both networks move, one at a time, and neither is the boss.

        Args:
            maps: Group name → ``[K, n, n]``, how b is permuted.
            batch: Its number.
        """
        back = {name: p.mT for name, p in maps.items()}
        return self._of(_averaged(self.a, self.b, maps), batch) + self._of(_averaged(self.b, self.a, back), batch)

    def _of(self, layers: Sequence[Dense], batch: int | None) -> Tensor:
        first = 0 if batch is None else batch * BATCH % SAMPLES
        rows = slice(first, SAMPLES if batch is None else first + BATCH)
        outputs, answers = forward(layers, self.dreams[rows]), self.answers[:, rows]
        if not self.classes:
            return (outputs - answers).square().mean((1, 2)) / answers.var((1, 2)).clamp_min(1e-12)
        return divergence(outputs, answers).mean(-1)

    @torch.no_grad()
    def of_scores(self, scores: Mapping[str, Tensor]) -> Tensor:
        """``[K]``, with the permutations that scores lead to."""
        count = len(self.a[0].weight)
        found = hard_maps_of([(self.spec, {name: s[k] for name, s in scores.items()}) for k in range(count)])
        maps = {}
        for name, s in scores.items():
            index = torch.stack([maps_of_pair[name] for maps_of_pair in found]).to(s.device)
            maps[name] = torch.zeros_like(s).scatter_(2, index[..., None], 1.0)
        return self.distance(maps)


def _averaged(fixed: Sequence[Dense], moving: Sequence[Dense], maps: Mapping[str, Tensor]) -> list[Dense]:
    """(a + P b) / 2, layer by layer."""
    out, before = [], None
    for left, right in zip(fixed, moving, strict=True):
        weight, bias, here = right.weight, right.bias, maps.get(right.group)
        if before is not None:
            weight = weight @ before.mT
        if here is not None:
            weight, bias = here @ weight, (here @ bias[..., None])[..., 0]
        out.append(replace(left, weight=(left.weight + weight) / 2, bias=(left.bias + bias) / 2))
        before = here
    return out


def _directions(a: Sequence[Network], b: Sequence[Network], inputs: str) -> Tensor:
    """What dreams vary along, ``[K, inputs, directions]``: σ v, scaled so that inputs have variance 1 on average.

    Codes are √d v √σ, in units of the largest σ.
    """
    size = a[0].spec.groups[inputs].size
    codes = spectral_codes((a, b), min(size, DIRECTIONS))[inputs].reshape(len(a), size, -1)
    along = codes * torch.linalg.vector_norm(codes, dim=1, keepdim=True)
    return along / along.square().sum(2, keepdim=True).mean(1, keepdim=True).clamp_min(1e-30).sqrt()


def _dreaming(layers: Sequence[Dense], directions: Tensor) -> list[Dense]:
    """The same layers with z in place of inputs."""
    first = replace(layers[0], weight=layers[0].weight @ directions.to(layers[0].weight))
    return [first, *layers[1:]]


@cache
@torch.inference_mode(False)  # it outlives the caller's mode
def _noise() -> Tensor:
    """z, always the same."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(SAMPLES, DIRECTIONS, generator=generator, dtype=torch.float64, device="cpu")
