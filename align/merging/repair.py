"""REPAIR: give a merged network sane activations again.

Averaging weights shrinks the variance of what layers compute. Networks with BatchNorm need their running statistics
measured again (:mod:`align.running.batchnorm`); for others, REPAIR shifts and scales every layer's outputs to the mean
and standard deviation that the endpoints have on average, and folds that into the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from wsgraph.randomness import OwnDraws
from wsgraph.shell import shell
from wsgraph.widths import positions

from ..alignment import Alignment
from ..running.batches import Samples, batches
from ..running.batchnorm import measure_norms, own_copy, reset_batchnorm
from ..running.inputs import run

Layer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d


@torch.no_grad()
def repair(
    merged: nn.Module,
    endpoints: Sequence[nn.Module],
    data: Samples,
    shares: Sequence[float] | None = None,
    alignments: Sequence[Alignment | None] = (),
) -> nn.Module:
    """REPAIR: every hidden layer of ``merged`` gets the endpoints' average mean and standard deviation per channel.

    Args:
        merged: The averaged network.
        endpoints: The (aligned) networks it was made of; those of other widths than ``merged`` as they are.
        data: Inputs to measure on.
        shares: What each counts for; all the same by default.
        alignments: Of all endpoints but the first: those of other widths say which of its neurons are which.

    Returns:
        A copy, corrections folded into weights and biases, BatchNorm statistics measured anew.
    """
    model = own_copy(merged)
    shares = shares or [1 / len(endpoints)] * len(endpoints)
    goals = [_output_moments(e, data) for e in endpoints]
    for k, found in enumerate(alignments, 1):
        goals[k] = goals[k] if found is None or found.square else _matched(goals[k], goals[0], found)
    layers = _layers(model)
    resized = any(found is not None and not found.square for found in alignments)
    last = None if resized else -1  # a cut layer adds up fewer terms, outputs too
    hidden = [name for name in list(goals[0])[:last] if layers[name].bias is not None]  # in order of execution
    norms: dict[str, nn.BatchNorm1d] = {}
    for name in hidden:
        weighed = ([w * g[name][k] for w, g in zip(shares, goals, strict=True)] for k in (0, 1))
        mean, std = (torch.stack(parts).sum(0) for parts in weighed)
        norms[name] = _norm_to(mean, std)
    inner = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    with _normalised({layers[name]: norm for name, norm in norms.items()}):
        measure_norms(model, [*inner, *norms.values()], data)
    for name, norm in norms.items():
        _fold(layers[name], norm)
    return reset_batchnorm(model, None, data)


Moments = dict[str, tuple[Tensor, Tensor]]
"""Layer name → mean and standard deviation of every output channel, in order of execution."""


def _matched(moments: Moments, reference: Moments, alignment: Alignment) -> Moments:
    """Those of a network of other widths for the neurons of the reference; its own, where there is no partner."""
    out = {}
    for name, own in reference.items():
        axis = alignment.a.spec.params[f"{name}.weight"].axes[0]
        index = positions(axis, alignment.b.spec, alignment.a.spec, alignment.maps).to(own[0].device)
        mean, std = (torch.where(index < 0, x, y[index.clamp_min(0)]) for x, y in zip(own, moments[name], strict=True))
        out[name] = mean, std
    return out


def _layers(model: nn.Module) -> dict[str, Layer]:
    return {name: m for name, m in model.named_modules() if isinstance(m, Layer)}


def _norm_to(mean: Tensor, std: Tensor) -> nn.BatchNorm1d:
    """A norm that measures, and sets mean and standard deviation to the given ones."""
    norm = nn.BatchNorm1d(len(mean), eps=1e-8, device=mean.device, dtype=mean.dtype)
    norm.weight.copy_(std)
    norm.bias.copy_(mean)
    return norm


@contextmanager
def _normalised(norms: Mapping[Layer, nn.BatchNorm1d]) -> Iterator[None]:
    """Inside, the outputs of each layer pass through its norm."""

    def hook(layer: nn.Module, _inputs: object, out: Tensor) -> Tensor:
        rows = _rows(layer, out)  # type: ignore[arg-type]
        return norms[layer](rows.flatten(0, -2)).view(rows.shape).movedim(-1, _channel(layer))  # type: ignore[arg-type, index]

    handles = [layer.register_forward_hook(hook) for layer in norms]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _rows(layer: Layer, out: Tensor) -> Tensor:
    """Outputs with the channels last."""
    return out.movedim(_channel(layer), -1)


def _channel(layer: Layer) -> int:
    """The dimension of a layer's outputs that holds its channels, from the end."""
    return 1 - layer.weight.dim()  # in front of the spatial ones: a Linear weight has 2 dimensions, Conv2d's has 4


def _fold(layer: Layer, norm: nn.BatchNorm1d) -> None:
    assert norm.running_var is not None
    assert norm.running_mean is not None
    assert layer.bias is not None
    factor = norm.weight / (norm.running_var + norm.eps).sqrt()
    layer.weight.mul_(factor.view(-1, *(1,) * (layer.weight.dim() - 1)))
    layer.bias.copy_((layer.bias - norm.running_mean) * factor + norm.bias)


def _output_moments(model: nn.Module, data: Samples) -> Moments:
    private, draws = shell(model).eval(), OwnDraws()
    layers = _layers(private)
    names = {layer: name for name, layer in layers.items()}
    sums: dict[str, list[Tensor]] = {}

    def look(layer: nn.Module, _inputs: object, out: Tensor) -> None:
        values = _rows(layer, out).flatten(0, -2).double()  # type: ignore[arg-type]
        new = [values.sum(0), values.square().sum(0), torch.full((), len(values), device=out.device)]
        name = names[layer]  # type: ignore[index]
        sums[name] = [s + n for s, n in zip(sums[name], new, strict=True)] if name in sums else new

    for layer in names:
        layer.register_forward_hook(look)
    for x, _ in batches(data, private):
        with draws:
            run(private, x)
    out = {}
    for name, (first, second, count) in sums.items():
        mean, like = first / count, layers[name].weight
        out[name] = mean.to(like), (second / count - mean.square()).clamp_min(0).sqrt().to(like)
    return out
