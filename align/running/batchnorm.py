"""BatchNorm statistics, measured anew on data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from wsgraph.modules import tensors_of, with_tensors
from wsgraph.randomness import OwnDraws
from wsgraph.ties import map_tied

from .batches import Samples, batches
from .inputs import count, run
from .modes import evaluating


@torch.no_grad()
def reset_batchnorm(template: nn.Module, tensors: Mapping[str, Tensor] | None, data: Samples) -> nn.Module:
    """A copy of ``template`` holding ``tensors`` whose BatchNorm statistics are averages over ``data``."""
    model = own_copy(template, tensors)
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    for m in norms:
        m.reset_running_stats()
    if norms:
        measure_norms(model, norms, data)
    return model


def own_copy(model: nn.Module, tensors: Mapping[str, Tensor] | None = None) -> nn.Module:
    """A copy of ``model`` that shares no tensor with it; holds ``tensors`` in place of its own, if given."""
    held = tensors_of(model) if tensors is None else tensors
    return with_tensors(model, map_tied(held, lambda _, t: t.detach().clone()))


def measure_norms(model: nn.Module, norms: Sequence[_BatchNorm], data: Samples) -> None:
    """Run ``data`` through a module of ours; the statistics of ``norms`` become averages over all samples."""
    momenta, seen, draws = [m.momentum for m in norms], 0, OwnDraws()
    with evaluating(model):
        for m in norms:
            m.train()
        for x, _ in batches(data, model):
            seen += count(x)
            for m in norms:
                m.momentum = count(x) / seen  # a plain average: every sample counts alike
            with draws:
                run(model, x)
    for m, momentum in zip(norms, momenta, strict=True):
        m.momentum = momentum
