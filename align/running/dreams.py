r"""Inputs that two networks dream of, for want of data: Gaussian ones that vary as their first layers expect.

A trained network reads few directions of its inputs, and has learned them from the data. White noise hardly touches
them; two networks may be averaged well by what they say about it, and badly on data. Where W reads the inputs,

.. math:: x \propto \frac{W_a^\top z_a}{\lVert W_a^\top z_a \rVert} + \frac{W_b^\top z_b}{\lVert W_b^\top z_b \rVert},
          \qquad z \sim \mathcal N(0, 1),

has the covariance WᵀW of both. The products are gradients of what the first layers compute, so that convolutions,
patches and recurrent cells dream as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from wsgraph import Spec
from wsgraph.naming import INPUT
from wsgraph.randomness import OwnDraws
from wsgraph.shell import shell

from .batches import noise

DREAMS = "dreams"
"""These inputs in place of data."""
SAMPLES = 2_000
"""Of them, unless another number is asked for."""
AT_ONCE = 128


def dreams(
    networks: Sequence[nn.Module],
    spec: Spec,
    example_input: Any = None,
    samples: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Inputs of unit variance, on the first network's device and in its dtype: ``[samples, *shape of one input]``.

    A network whose first layers cannot be watched (weights that are used by other modules than their own) adds white
    noise.

    Args:
        networks: Of one architecture; all of them have an equal say.
        spec: Their symmetry, which tells what reads the inputs.
        example_input: Needed where the input's shape cannot be inferred.
        samples: How many.
        generator: Of the noise.
    """
    count = SAMPLES if samples is None else samples
    parts = [_dreams_of(shell(network).eval(), spec, example_input, count, generator) for network in networks]
    return _unit(torch.stack(parts).sum(0))


def first_layers(network: nn.Module, spec: Spec) -> list[nn.Module]:
    """Modules with a weight that reads nothing but the inputs."""
    inputs = {group.name for group in spec.groups.values() if group.why == INPUT}
    reading = [p.name for p in spec.params.values() if p.reads is not None and _within(p.axes[p.reads].groups, inputs)]
    modules = dict(network.named_modules())
    owners = {id(m): m for name in reading if (m := modules.get(name.rpartition(".")[0])) is not None}
    return list(owners.values())


def _dreams_of(
    network: nn.Module, spec: Spec, example_input: Any, count: int, generator: torch.Generator | None
) -> Tensor:
    batches = noise(network, example_input, count, generator, AT_ONCE)
    return _unit(torch.cat([_dreamed(network, spec, x, generator) for x in batches]))


class _SeenError(Exception):
    """Thrown once all first layers have answered: the rest of the network is not needed."""


def _dreamed(network: nn.Module, spec: Spec, x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Gradient of z · first layers in the inputs, at x; x itself where nothing is seen."""
    layers, seen = first_layers(network, spec), []

    def watch(_module: nn.Module, _inputs: Any, output: Any) -> None:
        seen.append(output[0] if isinstance(output, tuple) else output)
        if len(seen) == len(layers):
            raise _SeenError

    hooks = [layer.register_forward_hook(watch) for layer in layers]
    x = x.requires_grad_()
    try:
        with OwnDraws(), torch.enable_grad():
            network(x)
    except _SeenError:
        pass
    finally:
        for hook in hooks:
            hook.remove()
    told = [s for s in seen if isinstance(s, Tensor) and s.requires_grad]
    z = [torch.randn(s.shape, generator=generator).to(s) for s in told]
    found = torch.autograd.grad(told, x, z, allow_unused=True)[0] if told else None
    return x.detach() if found is None else found


def _unit(x: Tensor) -> Tensor:
    return x / x.square().mean().sqrt().clamp_min(1e-30)


def _within(groups: Sequence[str], inputs: set[str]) -> bool:
    return bool(groups) and set(groups) <= inputs
