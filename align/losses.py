r"""What the learned aligner is trained on, one function per equation.

All functions take pairs of one architecture, stacked: ``scores[group]`` is ``[K, n, n]``, a network's tensors are
``[K, ...]``. There is no loop over pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F

from wsgraph import Spec

from .alignment import STATISTICS

Stack = Mapping[str, Tensor]


def supervised(scores: Stack, labels: Stack) -> Tensor:
    r"""ℓ_supervised: cross-entropy of every neuron's partner.

    Rows (neurons of a) and columns (neurons of b) count alike, which keeps the symmetry of swapping the networks:

    .. math:: \tfrac12 \big( \mathrm{CE}(S, t) + \mathrm{CE}(S^\top, t^{-1}) \big), \quad \text{mean over groups}

    Args:
        scores: Group name → ``[K, n, n]``.
        labels: Group name → ``[K, n]``: the partner in b of each neuron of a. For b = t·f_aug(a) that is tᵀ.
    """
    losses = []
    for name, s in scores.items():
        label = labels[name]
        rows = F.cross_entropy(s.flatten(0, 1), label.flatten())
        columns = F.cross_entropy(s.mT.flatten(0, 1), label.argsort(dim=-1).flatten())
        losses.append((rows + columns) / 2)
    return torch.stack(losses).mean()


def alignment(a: Stack, moved: Stack, spec: Spec) -> Tensor:
    r"""ℓ_alignment: ‖a − P·b‖² / ‖a‖², norm statistics aside, mean over pairs."""
    kept = [k for k, t in a.items() if t.is_floating_point() and spec.params[k].role not in STATISTICS]
    gap = sum((a[k] - moved[k]).flatten(1).square().sum(1) for k in kept)
    size = sum(a[k].flatten(1).square().sum(1) for k in kept)
    return (gap / size).mean()  # type: ignore[union-attr]


def lmc(
    template: nn.Module,
    a: Stack,
    moved: Stack,
    weight: Tensor,
    batch: tuple[Tensor, Tensor],
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
) -> Tensor:
    r"""ℓ_LMC: task loss on the line to the softly permuted network, L(λ a + (1 − λ) P·b), mean over pairs.

    Args:
        template: A module of the architecture.
        a: Tensors of the reference networks.
        moved: Tensors of the permuted ones.
        weight: λ of each pair, ``[K]``.
        batch: Inputs and targets, shared by all pairs.
        loss: The networks' own loss.
    """
    x, y = batch

    def one(p: dict[str, Tensor], q: dict[str, Tensor], w: Tensor) -> Tensor:
        middle = {k: w * t + (1 - w) * q[k] if t.is_floating_point() else t for k, t in p.items()}
        return loss(functional_call(template, middle, (x,)), y)

    return vmap(one, randomness="different")(dict(a), dict(moved), weight).mean()
