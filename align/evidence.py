r"""Evidence from the weights alone: how alike the activations and the gradients of two neurons would be.

Feed two networks the same Gaussian noise. How the i-th neuron of a varies with the j-th of b follows from the weights,
layer by layer, and so does how their gradients do, from the outputs back:

.. math:: C_g = \sum_{g' \to g} W_a\, \kappa(C_{g'})\, W_b^\top, \qquad
          G_{g'} = \sum_{g' \to g} W_a^\top\, (\dot\kappa(C_g) \odot G_g)\, W_b, \qquad
          C_\text{inputs} = G_\text{outputs} = 1 .

κ is what an activation makes of a covariance; for ReLU it is known in closed form (the arc-cosine kernel of Cho and
Saul). No neuron needs to be matched for its neighbours to speak, no data is needed, and nothing is learned here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from wsgraph.network import Network, stack_of
from wsgraph.nn.plan import Step, plan_of
from wsgraph.nn.prepare import norm_gain

LARGE = 2_000_000
"""Weights of a network above which an aligner takes one look at it: nothing passes hidden layers, no other views."""
BENT = {"relu": 1.0, "leaky_relu": 1.0, "gelu": 0.8, "silu": 0.6, "elu": 0.4, "identity": 0.0, "tanh": 0.0}
"""How much of ReLU is in an activation; the rest is linear."""
UNKNOWN = 0.5
CLOSE = 1 - 1e-6
"""Correlations above are as good as 1: their angle, √(1 - r²), is rounding."""
FAINT = 1e-3
"""Spread of correlations below which they tell nothing."""


@dataclass(frozen=True)
class Joint:
    """Covariances of a group's neurons: inside a ``[K, n_a, n_a]``, of a with b ``[K, n_a, n_b]``, inside b."""

    aa: Tensor
    ab: Tensor
    bb: Tensor

    def map(self, function: Callable[..., Tensor], *others: Joint) -> Joint:
        """A function of the entries, part by part."""
        rest = [(o.aa, o.ab, o.bb) for o in others]
        return Joint(*(function(*parts) for parts in zip((self.aa, self.ab, self.bb), *rest, strict=True)))

    def scaled(self, a: Tensor, b: Tensor) -> Joint:
        """Rows and columns times factors ``[K, n]`` of their network."""
        pairs = ((self.aa, a, a), (self.ab, a, b), (self.bb, b, b))
        return Joint(*(c * left[..., None] * right[:, None] for c, left, right in pairs))

    def deviations(self) -> tuple[Tensor, Tensor]:
        """Standard deviations ``[K, n]`` of both networks' neurons."""
        a, b = (c.diagonal(dim1=1, dim2=2).clamp_min(1e-20).sqrt() for c in (self.aa, self.bb))
        return a, b

    def correlations(self) -> Joint:
        """Covariances of neurons with variance 1."""
        a, b = self.deviations()
        return self.scaled(1 / a, 1 / b).map(lambda c: c.clamp(-1, 1))

    def unit(self) -> Joint:
        """The same with a mean variance of 1 in either network."""
        a, b = (d.square().mean(1, keepdim=True).rsqrt() for d in self.deviations())
        return self.scaled(a, b)


@torch.no_grad()
def covariances(a: Sequence[Network], b: Sequence[Network], deep: bool = True) -> tuple[dict[str, Joint], ...]:
    """Covariances of activations, and of gradients, of the neurons of K pairs: two dicts by free group.

    Args:
        a: Networks of one architecture.
        b: As many; they may have other widths.
        deep: Whether they are passed on through hidden layers; else only pinned neighbours are heard.
    """
    free = {g.name for g in a[0].spec.free}
    steps = [(s, _weights(a, s), _weights(b, t)) for s, t in zip(_steps(a[0]), _steps(b[0]), strict=True)]
    forward: dict[str, Joint] = {}
    for step, wa, wb in steps:
        target, source = step.block.target, step.block.source or ""
        if target in free and source not in free:
            _add(forward, target, _passed(wa, wb))
        elif target in free and deep and source in forward:
            known = _activated(forward[source].unit(), _bent(a[0], source))
            _add(forward, target, _passed(wa, wb, known))
    backward: dict[str, Joint] = {}
    for step, wa, wb in reversed(steps):
        target, source = step.block.target, step.block.source or ""
        va, vb = wa.transpose(1, 2), wb.transpose(1, 2)
        if source in free and target not in free:
            _add(backward, source, _passed(va, vb))
        elif source in free and deep and target in backward:
            known = _differentiated(backward[target].unit(), forward.get(target), _bent(a[0], target))
            _add(backward, source, _passed(va, vb, known))
    return forward, backward


def _steps(network: Network) -> list[Step]:
    return [s for s in plan_of(network.spec).steps if s.block.source is not None and s.block.runs == 1]


def _weights(networks: Sequence[Network], step: Step) -> Tensor:
    """``[K, target, source, taps]``, times the gains of the norms around them."""
    names = {step.block.param, *(b.param for b in (*step.written, *step.read))}
    tensors = {name: stack_of(networks, name) for name in names}
    weights = step.block.view(tensors[step.block.param])
    weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
    for blocks, dim in ((step.written, -2), (step.read, -3)):
        gain = norm_gain(networks[0].spec, blocks, tensors, weights.dtype)
        if gain is not None:
            weights = weights * gain.unsqueeze(-1 if dim == -2 else -3)
    return weights if len(networks) > 1 else weights[None]


def _bent(network: Network, group: str) -> float:
    return BENT.get(network.spec.groups[group].activation, UNKNOWN)


def _add(found: dict[str, Joint], group: str, more: Joint) -> None:
    more = more.unit()  # so that what a stream gets from several sides counts alike
    found[group] = found[group].map(torch.add, more) if group in found else more


def _passed(wa: Tensor, wb: Tensor, known: Joint | None = None) -> Joint:
    """W K Wᵀ of all parts, summed over taps; K is the identity if ``None``."""

    def one(x: Tensor, y: Tensor, k: Tensor | None) -> Tensor:
        x = x if k is None else torch.einsum("znmt,zmk->znkt", x, k)
        return x.flatten(2) @ y.flatten(2).mT

    ks = (None, None, None) if known is None else (known.aa, known.ab, known.bb)
    return Joint(one(wa, wa, ks[0]), one(wa, wb, ks[1]), one(wb, wb, ks[2]))


def _activated(before: Joint, bent: float) -> Joint:
    """κ: covariances after an activation, without the means."""
    if bent == 0:
        return before

    def kernel(r: Tensor) -> Tensor:
        r = r.clamp(-CLOSE, CLOSE)
        raw = ((1 - r * r).sqrt() + (math.pi - torch.arccos(r)) * r) / math.pi
        return bent * (raw - 1 / math.pi) / (1 - 1 / math.pi) + (1 - bent) * r

    return before.correlations().map(kernel).scaled(*before.deviations())


def _differentiated(after: Joint, before: Joint | None, bent: float) -> Joint:
    """κ̇ ⊙ G: covariances of gradients before an activation whose arguments vary together as ``before`` says."""
    if bent == 0 or before is None:
        return after

    def kernel(r: Tensor, g: Tensor) -> Tensor:
        return g * (bent * (1 - torch.arccos(r.clamp(-CLOSE, CLOSE)) / math.pi) + 1 - bent)

    return before.correlations().map(kernel, after)


class Evidence(nn.Module):
    r"""Adds to each score what the evidence says, in units of its own noise:

    .. math:: S_g \mathrel{+}= \alpha_g\, \rho(C_g) / \sigma(\rho(C_g)) + \beta_g\, \rho(G_g) / \sigma(\rho(G_g))

    ρ are correlations and σ their standard deviation over all n_a · n_b pairs of neurons: gradients of ten outputs,
    say, make any two of 500 neurons look alike or opposite, and weigh less. (α, β) > 0 are learned functions of
    both σ; a negative one would let a network mismatch itself. Equivariance and swap symmetry hold term by term.
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
            told = covariances(a, b, deep)
            return {name: s + self._terms(name, told).to(s.dtype) for name, s in scores.items()}

    def _terms(self, group: str, told: Sequence[dict[str, Joint]]) -> Tensor:
        """``[K, n_a, n_b]``, or 0 without any evidence."""
        found = [t[group].correlations().ab if group in t else None for t in told]
        like = next((r for r in found if r is not None), None)
        if like is None:
            return self.gate.bias.new_zeros(())
        one = like.new_ones(len(like))
        noise = [one if r is None else r.std(dim=(1, 2), correction=0).clamp_min(FAINT) for r in found]
        weights = softplus(self.gate(torch.stack(noise, dim=1).log().to(self.gate.weight)))
        terms = zip(weights.T[..., None, None], found, noise, strict=True)
        return torch.stack([w * (r / n[:, None, None]).to(w) for w, r, n in terms if r is not None]).sum(0)
