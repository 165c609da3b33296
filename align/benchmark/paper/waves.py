r"""Sine networks in one form: their neurons have symmetries besides permutations, which no permutation undoes.

A neuron sin(w·x + β) that is read with the weight v is the same as each of

.. math:: v \sin(-w x + \pi - \beta), \qquad -v \sin(w x + \beta \pm \pi), \qquad v \sin(w x + \beta + 2 \pi k).

Of all these the one with Σw ≥ 0 and −π/2 < β ≤ π/2 is taken. The sum does not depend on the order of neurons, so that a
permuted network in one form is the permuted one form of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import pi

import torch
from torch import Tensor

from ...running.networks import Tensors
from ...zoo import Zoo

MAKE = "inr"
"""The architecture that is meant: linear layers with sines between them."""


def one_form(tensors: Mapping[str, Tensor], frequency: float) -> Tensors:
    """The same function, every neuron with the sign and phase that all networks have here.

    Args:
        tensors: Weights and biases of linear layers, in their order, with sin(frequency · x) between them.
        frequency: What sines multiply their inputs by.
    """
    found = dict(tensors)
    weights = [name for name in found if name.endswith("weight")]
    for weight, reader in pairwise(weights):
        bias = weight.removesuffix("weight") + "bias"
        turned = found[weight].sum(1) < 0
        found[weight] = torch.where(turned[:, None], -found[weight], found[weight])
        phase = frequency * found[bias]
        phase = torch.where(turned, pi - phase, phase)
        halves = torch.ceil(phase / pi - 0.5)  # so many half waves away from (−π/2, π/2]
        found[bias] = (phase - halves * pi) / frequency
        found[reader] = torch.where(halves % 2 == 1, -found[reader], found[reader])
    return found


class OneForm(Zoo):
    """The networks of a zoo of sine networks, each in its one form."""

    def __init__(self, zoo: Zoo) -> None:
        super().__init__(zoo.folder, zoo.count, zoo.config.own)

    def __reduce__(self) -> tuple[type[OneForm], tuple[Zoo]]:  # type: ignore[override]
        return OneForm, (Zoo(self.folder, self.count, self.config.own),)

    def tensors(self, number: int) -> Tensors:
        return one_form(super().tensors(number), self.config.args["frequency"])
