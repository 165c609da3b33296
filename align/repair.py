"""Give a merged network sane activations again: BatchNorm statistics anew, or REPAIR.

Averaging weights shrinks the variance of what layers compute. Networks with BatchNorm need their running statistics
measured again; for others, REPAIR shifts and scales every layer's outputs to the mean and standard deviation that the
endpoints have on average, and folds that into the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from wsgraph.modules import tensors_of, with_tensors

from .batches import Data, batches

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@torch.no_grad()
def reset_batchnorm(template: nn.Module, tensors: Mapping[str, Tensor] | None, data: Data) -> nn.Module:
    """A copy of ``template`` holding ``tensors`` whose BatchNorm statistics are averages over ``data``."""
    held = tensors_of(template) if tensors is None else tensors
    model = with_tensors(template, {k: t.detach().clone() for k, t in held.items()}).eval()
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    momenta = [m.momentum for m in norms]
    for m in norms:
        m.reset_running_stats()
        m.momentum = None  # a plain average over all batches
        m.train()
    if norms:
        for x, _ in batches(data, model):
            model(x)
    for m, momentum in zip(norms, momenta, strict=True):
        m.momentum = momentum
        m.eval()
    return model.train(template.training)


@torch.no_grad()
def repair(merged: nn.Module, endpoints: Sequence[nn.Module], data: Data) -> nn.Module:
    """REPAIR: every hidden layer of ``merged`` gets the endpoints' average mean and standard deviation per channel.

    Args:
        merged: The averaged network.
        endpoints: The (aligned) networks it was made of.
        data: Inputs to measure on.

    Returns:
        A copy, corrections folded into weights and biases, BatchNorm statistics measured anew.
    """
    names = [name for name, m in merged.named_modules() if isinstance(m, _LAYERS) and m.bias is not None][:-1]
    if not names:
        return reset_batchnorm(merged, None, data)
    goals = [_output_moments(e, names, data) for e in endpoints]
    model = with_tensors(merged, {k: t.detach().clone() for k, t in tensors_of(merged).items()}).eval()
    layers = dict(model.named_modules())
    handles, norms = [], {}
    for name in names:
        mean, std = (torch.stack([g[name][k] for g in goals]).mean(0) for k in (0, 1))
        norms[name] = _norm_to(mean, std)
        handles.append(layers[name].register_forward_hook(lambda _m, _i, out, n=norms[name]: _along_channels(n, out)))
    for m in model.modules():
        if isinstance(m, _BatchNorm) and m.track_running_stats:
            m.reset_running_stats()
            m.momentum = None
            m.train()
    for x, _ in batches(data, model):
        model(x)
    for handle in handles:
        handle.remove()
    for name, norm in norms.items():
        _fold(layers[name], norm)
    return reset_batchnorm(model, None, data).train(merged.training)


def _norm_to(mean: Tensor, std: Tensor) -> nn.BatchNorm1d:
    """A norm that measures, and sets mean and standard deviation to the given ones."""
    norm = nn.BatchNorm1d(len(mean), momentum=None, eps=1e-8, device=mean.device, dtype=mean.dtype).train()
    norm.weight.copy_(std)
    norm.bias.copy_(mean)
    return norm


def _along_channels(norm: nn.Module, out: Tensor) -> Tensor:
    channel = _channel_dim(norm, out)
    moved = out.movedim(channel, -1)
    return norm(moved.reshape(-1, moved.shape[-1])).view(moved.shape).movedim(-1, channel)


def _channel_dim(norm: nn.Module, out: Tensor) -> int:
    size = norm.num_features  # type: ignore[union-attr]
    return 1 if out.dim() > 2 and out.shape[1] == size else out.dim() - 1


def _fold(layer: nn.Module, norm: nn.BatchNorm1d) -> None:
    assert norm.running_var is not None
    assert norm.running_mean is not None
    factor = norm.weight / (norm.running_var + norm.eps).sqrt()
    layer.weight.mul_(factor.view(-1, *(1,) * (layer.weight.dim() - 1)))  # type: ignore[union-attr, operator, arg-type]
    layer.bias.copy_((layer.bias - norm.running_mean) * factor + norm.bias)  # type: ignore[union-attr, operator]


def _output_moments(model: nn.Module, names: Sequence[str], data: Data) -> dict[str, tuple[Tensor, Tensor]]:
    """Layer name → mean and standard deviation of every output channel."""
    sums: dict[str, list[Tensor]] = {}

    def hook(name: str, size: int):
        def look(_module: nn.Module, _inputs: object, out: Tensor) -> None:
            channel = 1 if out.dim() > 2 and out.shape[1] == size else out.dim() - 1
            values = out.movedim(channel, -1).flatten(0, -2).double()
            new = [values.sum(0), values.square().sum(0), torch.tensor(float(len(values)))]
            sums[name] = [s + n for s, n in zip(sums[name], new, strict=True)] if name in sums else new

        return look

    modules = dict(model.named_modules())
    handles = [modules[n].register_forward_hook(hook(n, modules[n].weight.shape[0])) for n in names]  # type: ignore[union-attr, arg-type]
    mode = model.training
    model.eval()
    try:
        for x, _ in batches(data, model):
            model(x)
    finally:
        for handle in handles:
            handle.remove()
        model.train(mode)
    like = next(t for t in tensors_of(model).values() if t.is_floating_point())
    out = {}
    for name, (first, second, count) in sums.items():
        mean = first / count
        out[name] = mean.to(like), (second / count - mean.square()).clamp_min(0).sqrt().to(like)
    return out
