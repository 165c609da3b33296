r"""Plain MLPs as their graphs tell them: dense layers one after the other, run without a module.

.. math:: h_l = \sigma_l\big(W_l\, h_{l-1} + b_l\big)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from wsgraph import Spec
from wsgraph.naming import INPUT
from wsgraph.network import Network
from wsgraph.nn.plan import Step, plan_of

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "elu": F.elu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "hardswish": F.hardswish,
}
"""Activations whose name says enough. (A slope of one's own makes little difference to who matches whom.)"""


@dataclass(frozen=True)
class Dense:
    """One layer of K networks.

    Attributes:
        source: Group that it reads.
        group: Group whose neurons it writes.
        weight: ``[K, out, in]``.
        bias: ``[K, out]``, zeros if it has none.
        activation: Name of what follows; ``identity`` for the outputs.
    """

    source: str
    group: str
    weight: Tensor
    bias: Tensor
    activation: str

    def __call__(self, x: Tensor) -> Tensor:
        """``[K, samples, in]``, or one batch for all networks, to ``[K, samples, out]``."""
        y = x @ self.weight.mT + self.bias[:, None]
        return ACTIVATIONS[self.activation](y) if self.activation != "identity" else y


def is_perceptron(spec: Spec) -> bool:
    """Whether dense layers in a row are all there is, and what follows each of them is known."""
    return _steps(spec) is not None


def layers_of(networks: Sequence[Network]) -> list[Dense]:
    """The layers of K plain MLPs of one architecture, in new tensors of at least single precision."""
    spec, steps = networks[0].spec, _steps(networks[0].spec)
    if steps is None:
        raise ValueError("these networks are more than dense layers in a row; ask is_perceptron first")
    return [_layer(networks, step, spec.groups[step.block.target].activation) for step in steps]


def forward(layers: Sequence[Dense], x: Tensor) -> Tensor:
    """Outputs ``[K, samples, out]``."""
    for layer in layers:
        x = layer(x)
    return x


def _layer(networks: Sequence[Network], step: Step, activation: str) -> Dense:
    weight = _stacked(networks, step.block.param, step.block.view)[..., 0]
    zeros = weight.new_zeros(weight.shape[:2])
    bias = sum((_stacked(networks, b.param, b.view)[..., 0] for b in step.written), zeros)
    return Dense(step.block.source or "", step.block.target, weight, bias, activation)


def _stacked(networks: Sequence[Network], param: str, view: Callable[[Tensor], Tensor]) -> Tensor:
    tensors = torch.stack([view(n.tensors[param]) for n in networks])
    return tensors.to(torch.promote_types(tensors.dtype, torch.float32))


@lru_cache(maxsize=256)
def _steps(spec: Spec) -> tuple[Step, ...] | None:
    """The layers in order, or ``None`` where there is anything else."""
    plan = plan_of(spec)
    known = {step.block.param for step in plan.steps} | {b.param for step in plan.steps for b in step.written}
    if plan.loose or not plan.steps or known != set(spec.params):
        return None
    group = plan.steps[0].block.source
    if group is None or spec.groups[group].why != INPUT:
        return None
    seen = {group}
    for step in plan.steps:
        block, target = step.block, spec.groups[step.block.target]
        last = step is plan.steps[-1]
        fits = block.source == group and target.name not in seen and target.pinned == last
        dense = block.taps == () and block.runs == 1 and block.numel == target.size * spec.groups[group].size
        biased = all(spec.params[b.param].role == "bias" and b.taps == () for b in step.written) and not step.read
        known_next = target.activation == "identity" if last else target.activation in ACTIVATIONS
        if not (fits and dense and biased and known_next):
            return None
        group = target.name
        seen.add(group)
    return plan.steps
