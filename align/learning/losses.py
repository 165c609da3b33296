r"""What the learned aligner is trained on, one function per equation.

All functions take pairs of one architecture, stacked: ``scores[group]`` is ``[K, n, n]``, a network's tensors are
``[K, ...]``. There is no loop over pairs, but for networks that torch cannot vectorise.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from wsgraph import Spec
from wsgraph.shell import shell

from ..alignment import STATISTICS
from ..running.layout import channels_last
from ..running.outputs import Loss
from ..running.stacked import over_networks, slow_together

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


def activation(maps: Stack, correlations: Stack) -> Tensor:
    r"""ℓ_activation: how little the neurons that are matched fire alike,

    .. math:: 1 - \tfrac1n \langle P, C \rangle, \quad \text{mean over groups and pairs}

    Args:
        maps: Group name → ``[K, n, n]``, soft permutations.
        correlations: Group name → ``[K, n, n]``, of the neurons of both networks on inputs of the task; groups that
            are not seen do not count.
    """
    alike = [(maps[name] * c).sum((-2, -1)) / c.shape[-1] for name, c in correlations.items()]
    return 1 - torch.stack(alike).mean()


def lmc(
    template: nn.Module,
    a: Stack,
    moved: Stack,
    inputs: Tensor,
    targets: Tensor,
    loss: Loss = F.cross_entropy,
) -> Tensor:
    r"""ℓ_LMC: task loss half way to the softly permuted network, L(½ a + ½ P·b), mean over pairs.

    The paper draws a place on the line; the barrier is in its middle, and learning there is no worse or better
    (``python -m align.benchmark training``). BatchNorm takes its statistics from the inputs, as if it were reset there.

    Args:
        template: A module of the architecture; its own tensors do not matter, nor where they are. A shell of it runs.
        a: Tensors of the reference networks.
        moved: Tensors of the permuted ones.
        inputs: Of the task, shared by all pairs.
        targets: Of each pair, ``[K, ...]``.
        loss: The networks' own loss.
    """
    private = batch_statistics(template)
    running = {name for name, _ in template.named_buffers()}

    def middle(name: str, p: Tensor, q: Tensor) -> Tensor:
        if not p.is_floating_point():
            return p.clone()  # norms count their batches in place
        return (p + (q.detach() if name in running else q)) / 2

    def one(p: dict[str, Tensor], q: dict[str, Tensor], y: Tensor) -> Tensor:
        network = {k: middle(k, t, q[k]) for k, t in p.items()}
        return loss(functional_call(private, network, (inputs,)), y)

    alone = slow_together({k: t[0] for k, t in a.items()})
    if alone:
        inputs = channels_last(private, inputs)
    return over_networks(template, one, dict(a), dict(moved), targets, alone=alone).mean()


def batch_statistics(template: nn.Module) -> nn.Module:
    """A shell of ``template`` whose BatchNorm normalises by the batch at hand."""
    private = shell(template)
    for module in private.modules():
        if isinstance(module, _BatchNorm):
            module.training = True
    return private
