"""One training step: the losses of a batch of pairs, without a loop over the pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.func import vmap

from wsgraph import Permutation, Spec
from wsgraph.modules import with_tensors

from ..deep_align import DeepAlign
from ..methods.activation_matching import correlations
from ..projection.assignment import hard_maps
from ..projection.sinkhorn import soft_maps
from ..running.networks import Tensors
from ..zoo import Zoo
from . import losses
from .pairs import Pair, generator
from .settings import TrainConfig

WATCHED = 16
"""Samples of a step that activations are seen on; a convolution shows a neuron at many places of each."""


def step_losses(
    aligner: DeepAlign,
    plain: Sequence[Pair],
    labelled: Sequence[Pair],
    config: TrainConfig,
    step: int,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> dict[str, Tensor]:
    """All losses on unlabelled (``plain``) and labelled pairs of one zoo; the encoder runs under ``autocast()``."""
    zoo, count, device = plain[0].zoo, len(plain), aligner.s.device
    pairs = [*plain, *labelled]
    a, b = [p.a.to(device) for p in pairs], [p.b.to(device) for p in pairs]
    with autocast():
        rough = aligner.stacked_scores(a, b, generator("codes", config.seed, step))
    scores = {name: s.to(aligner.s.dtype) for name, s in rough.items()}  # what follows needs all digits
    left, right = (stack([g.tensors for g in side[:count]]) for side in (a, b))
    maps = permutations(zoo.spec, {g: s[:count] for g, s in scores.items()}, config)
    moved = permute_softly(zoo.spec, maps, right)

    def supervised() -> Tensor:
        labels = {name: label.to(device) for name, label in labels_of(labelled, zoo.spec).items()}
        return losses.supervised({g: s[count:] for g, s in scores.items()}, labels)

    def lmc() -> Tensor:
        x, y = (t.to(device) for t in task_batch(plain, config, step))
        return losses.lmc(zoo.template, left, moved, x, y, zoo.task.loss)

    def alignment() -> Tensor:
        return losses.alignment(left, moved, zoo.spec)

    def activation() -> Tensor:
        x = task_batch(plain, config, step)[0][:WATCHED].to(device)
        return losses.activation(maps, correlated(zoo, left, right, x))

    known = {"supervised": supervised, "lmc": lmc, "alignment": alignment, "activation": activation}
    return {name: known[name]() for name in config.weights(zoo, step)}


def correlated(zoo: Zoo, left: Tensors, right: Tensors, x: Tensor) -> Tensors:
    """Correlations of the neurons of stacked pairs on inputs of the task: group name → ``[K, n, n]``."""
    count = len(next(iter(left.values())))
    pairs = [[with_tensors(zoo.template, {n: t[k] for n, t in side.items()}) for side in (left, right)]
             for k in range(count)]  # fmt: skip
    found = [correlations(a.eval(), b.eval(), (zoo.spec, zoo.spec), [x]) for a, b in pairs]
    return {name: torch.stack([each[name].to(x) for each in found]) for name in found[0]}


def stack(networks: Sequence[Mapping[str, Tensor]]) -> Tensors:
    """Several state dicts as one with a leading axis."""
    return {k: torch.stack([n[k] for n in networks]) for k in networks[0]}


def labels_of(pairs: Sequence[Pair], spec: Spec) -> Tensors:
    """Labels of pairs, stacked: group name → ``[K, n]``."""
    labels = [p.label.maps for p in pairs if p.label is not None]
    return {g.name: torch.stack([maps[g.name] for maps in labels]) for g in spec.free}


def permutations(spec: Spec, scores: Mapping[str, Tensor], config: TrainConfig) -> Tensors:
    """Soft permutations ``[K, n, n]``; with ``config.hard`` their values are hard and their gradients soft."""
    soft = soft_maps(spec, scores, config.temperature, config.iterations)
    if not config.hard:
        return soft
    count = len(next(iter(scores.values())))
    found = [hard_maps(spec, {name: s[k] for name, s in scores.items()}) for k in range(count)]
    hard = {name: torch.stack([maps[name] for maps in found]).to(s.device) for name, s in soft.items()}
    return {name: torch.nn.functional.one_hot(hard[name], s.shape[-1]) + (s - s.detach()) for name, s in soft.items()}


def permute_softly(spec: Spec, maps: Tensors, networks: Tensors) -> Tensors:
    """P·b for a stack of networks: maps ``[K, n, n]``, tensors ``[K, ...]``."""
    return vmap(lambda m, t: Permutation.nearly(spec, m).apply(t))(maps, networks)


def task_batch(pairs: Sequence[Pair], config: TrainConfig, step: int) -> tuple[Tensor, Tensor]:
    """Samples of the task, drawn by the step's number: inputs ``[images, ...]`` and targets ``[K, images, ...]``."""
    task = pairs[0].zoo.task
    x, y = task.samples("train", pairs[0].item)
    index = torch.randint(len(x), (min(config.images, len(x)),), generator=generator("samples", config.seed, step))
    if task.own:
        return x[index], torch.stack([task.samples("train", p.item)[1][index] for p in pairs])
    return x[index], y[index].expand(len(pairs), *y[index].shape)
