r"""How alike the activations and the gradients of two neurons would be, from the weights alone.

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
from dataclasses import dataclass

import torch
from torch import Tensor

from wsgraph.network import Network, stack_of
from wsgraph.nn.plan import Step, plan_of
from wsgraph.nn.prepare import norm_gain

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
    pairs = zip(_steps(a[0]), _steps(b[0]), strict=True)
    heard = [(s, t) for s, t in pairs if deep or not {s.block.target, s.block.source} <= free]
    steps = [(s, _weights(a, s), _weights(b, t)) for s, t in heard]
    forward: dict[str, Joint] = {}
    for step, wa, wb in steps:
        target, source = step.block.target, step.block.source or ""
        if target in free and source not in free:
            _add(forward, target, _passed(wa, wb))
        elif target in free and source in forward:
            known = _activated(forward[source].unit(), _bent(a[0], source))
            _add(forward, target, _passed(wa, wb, known))
    backward: dict[str, Joint] = {}
    for step, wa, wb in reversed(steps):
        target, source = step.block.target, step.block.source or ""
        va, vb = wa.transpose(1, 2), wb.transpose(1, 2)
        if source in free and target not in free:
            _add(backward, source, _passed(va, vb))
        elif source in free and target in backward:
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


def standardised(found: Mapping[str, Joint]) -> dict[str, tuple[Tensor, Tensor]]:
    """Correlations between a and b in units of their noise, and that noise: group → ``[K, n_a, n_b]`` and ``[K]``.

    The noise is their standard deviation over all pairs of neurons, nearly all of which have nothing to do with each
    other. Gradients of ten outputs, say, make any two of 500 neurons look alike or opposite, and tell little.
    """
    return {group: in_units_of_noise(joint.correlations().ab) for group, joint in found.items()}


def in_units_of_noise(r: Tensor) -> tuple[Tensor, Tensor]:
    """Correlations ``[K, n_a, n_b]`` over their standard deviation, and that: ``[K]``."""
    noise = r.std(dim=(1, 2), correction=0).clamp_min(FAINT)
    return r / noise[:, None, None], noise
