"""Train a learned aligner on families of networks.

Each step takes one family and two batches of pairs: labelled ones, networks against permuted and augmented copies of
themselves, and unlabelled ones, different networks of the family.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vmap

from wsgraph import Permutation, Spec
from wsgraph.augment import Compose, Mask, Noise, Scale
from wsgraph.modules import tensors_of

from . import losses
from .barrier import Barrier, barrier
from .deep_align import DeepAlign
from .progress import progress
from .projection import soft_maps
from .zoo.family import Family, Tensors, stack


@dataclass(frozen=True)
class TrainConfig:
    """How an aligner is trained.

    Args:
        steps: Optimiser steps.
        pairs: Labelled, and unlabelled, pairs per step.
        images: Samples of the task per step, shared by all pairs.
        lr: Peak learning rate; linear warm-up over the first tenth, then cosine to zero.
        weight_decay: AdamW's.
        clip: Largest norm of the gradient.
        supervised: Weight of ℓ_supervised.
        lmc: Weight of ℓ_LMC.
        alignment: Weight of ℓ_alignment.
        noise: Gaussian noise of the augmented copies, relative to each tensor's scale.
        mask: Share of their weights that is set to zero.
        scale: Their neurons are scaled by factors between 1 / scale and scale.
        temperature: Of the Sinkhorn projection.
        iterations: Of the Sinkhorn projection.
        seed: Of everything drawn.
    """

    steps: int = 500
    pairs: int = 8
    images: int = 64
    lr: float = 2e-3
    weight_decay: float = 5e-4
    clip: float = 1.0
    supervised: float = 1.0
    lmc: float = 1.0
    alignment: float = 0.0
    noise: float = 0.02
    mask: float = 0.05
    scale: float = 1.1
    temperature: float = 1.0
    iterations: int = 20
    seed: int = 0


def train_aligner(
    aligner: DeepAlign,
    families: Sequence[Family],
    config: TrainConfig,
    report: Callable[[int, dict[str, float]], None] | None = None,
) -> DeepAlign:
    """Train in place and return the aligner in eval mode.

    Args:
        aligner: The aligner.
        families: What to learn from; steps alternate between them at random.
        config: Sizes and rates.
        report: Called after every step with the step's number and its losses.
    """
    generator = torch.Generator().manual_seed(config.seed)
    optimiser = torch.optim.AdamW(aligner.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda k: _rate(k, config.steps))
    aligner.train()
    with progress("training the aligner", config.steps) as step:
        for k in range(config.steps):
            family = families[int(torch.randint(len(families), (), generator=generator))]
            parts = step_losses(aligner, family, config, generator)
            total = config.supervised * parts["supervised"] + config.lmc * parts["lmc"]
            total = total + config.alignment * parts["alignment"]
            if not torch.isfinite(total):
                raise FloatingPointError(f"the loss is not finite at step {k}; lower lr (now {config.lr})")
            optimiser.zero_grad()
            total.backward()
            torch.nn.utils.clip_grad_norm_(aligner.parameters(), config.clip)
            optimiser.step()
            schedule.step()
            values = {name: float(v.detach()) for name, v in parts.items()}
            step(note=" ".join(f"{name} {v:.3f}" for name, v in values.items()))
            if report is not None:
                report(k + 1, values)
    return aligner.eval()


def _rate(k: int, steps: int) -> float:
    warm = max(1, steps // 10)
    return (k + 1) / warm if k < warm else 0.5 * (1 + math.cos(math.pi * (k - warm) / max(1, steps - warm)))


def step_losses(
    aligner: DeepAlign, family: Family, config: TrainConfig, generator: torch.Generator
) -> dict[str, Tensor]:
    """All losses on fresh pairs of one family."""
    drawn = [_draw(family, config.pairs, generator) for _ in range(3)]
    a, b, plain = drawn
    copies, labels = labelled(family, plain, config, generator)
    scores = aligner.stacked_scores(
        family.spec, [family.graph(t).network for t in a + plain], [family.graph(t).network for t in b + copies]
    )
    unlabelled = {g: s[: config.pairs] for g, s in scores.items()}
    moved = permute_softly(
        family.spec, soft_maps(family.spec, unlabelled, config.temperature, config.iterations), stack(b)
    )
    weight = torch.rand(config.pairs, generator=generator)
    x, y = family.data
    chosen = torch.randint(len(x), (min(config.images, len(x)),), generator=generator)
    return {
        "supervised": losses.supervised({g: s[config.pairs :] for g, s in scores.items()}, labels),
        "lmc": losses.lmc(family.template, stack(a), moved, weight, (x[chosen], y[chosen])),
        "alignment": losses.alignment(stack(a), moved, family.spec),
    }


def _draw(family: Family, count: int, generator: torch.Generator) -> list[Tensors]:
    return [family.train[int(i)] for i in torch.randint(len(family.train), (count,), generator=generator)]


def labelled(
    family: Family, networks: Sequence[Tensors], config: TrainConfig, generator: torch.Generator
) -> tuple[list[Tensors], dict[str, Tensor]]:
    """Permuted and augmented copies t·f_aug(v), and the labels tᵀ: group name → ``[K, n]``."""
    augment = Compose((Noise(config.noise), Mask(config.mask), Scale(1 / config.scale, config.scale)))
    copies, inverse = [], []
    for network in networks:
        t = Permutation.random(family.spec, generator)
        copies.append(t.apply(augment(family.graph(network), generator)).to_state_dict())
        inverse.append(t.inverse().maps)
    return copies, {g.name: torch.stack([m[g.name] for m in inverse]) for g in family.spec.free}


def permute_softly(spec: Spec, maps: dict[str, Tensor], networks: Tensors) -> Tensors:
    """P·b for a stack of networks: maps ``[K, n, n]``, tensors ``[K, ...]``."""
    return vmap(lambda m, t: Permutation(spec, m).apply(t))(maps, networks)


@torch.no_grad()
def held_out_barrier(aligner: DeepAlign, family: Family, pairs: int = 32, points: int = 11) -> Barrier:
    """The barrier of the aligner's hard permutations between held-out networks, on data no network saw."""
    a, b = family.test_pairs(pairs)
    graphs = [[family.graph(tensors_of(m)) for m in side] for side in (a, b)]
    aligned = [x.apply(m) for x, m in zip(aligner(*graphs), b, strict=True)]
    return barrier(a, aligned, data=family.held, points=points)
