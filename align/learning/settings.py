"""How an aligner is trained: sizes, rates and weights of the losses, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..zoo import Zoo

STAGES = 10
"""Of training, with noise of their own where it changes (``noise_end``)."""
LEAST_OF = {
    0: (
        "steps",
        "weight_decay",
        "supervised",
        "lmc",
        "alignment",
        "alignment_end",
        "activation",
        "noise",
        "noise_end",
        "validate",
        "patience",
        "checkpoint",
    ),
    1: ("pairs", "labelled", "images", "scale", "iterations"),
}
"""The least that some settings of a training may be."""


@dataclass(frozen=True)
class TrainConfig:
    """How an aligner is trained.

    Args:
        steps: Optimiser steps.
        pairs: Unlabelled pairs per step, of all processes together.
        labelled: Labelled ones; few are enough once ℓ_supervised is small.
        images: Samples of the task per step, shared by all pairs.
        mirror: Half of the networks of unlabelled pairs are mirrored: twice as many to learn from, for tasks where a
            mirrored image is as good an image.
        lr: Peak learning rate; linear warm-up over the first tenth, then cosine to zero.
        weight_decay: AdamW's.
        clip: Largest norm of the gradient.
        ema: Decay of the average of the aligner's weights that is validated and kept; 0 for none.
        supervised: Weight of ℓ_supervised.
        lmc: Weight of ℓ_LMC.
        alignment: Weight of ℓ_alignment; networks that fit signals of their own (INRs) go without it, as in the paper.
        alignment_end: Weight that it changes to by the end, step by step; ``None``: it stays. Close weights are a guide
            at first and mislead in the end: what is nearest is not what averages best.
        activation: Weight of ℓ_activation at first, which falls to 0 by the end, step by step. Neurons that fire alike
            are a guide while the average of two deep networks says nothing yet.
        noise: Gaussian noise of the augmented copies, relative to each tensor's scale.
        noise_end: Noise that it grows (or falls) to by the end, in :data:`STAGES` equal stages; ``None``: it stays.
        mask: Share of their weights that is set to zero.
        scale: Their neurons are scaled by factors between 1 / scale and scale.
        temperature: Of the Sinkhorn projection.
        iterations: Of the Sinkhorn projection.
        hard: Take the step forward with hard permutations and backward through the soft ones.
        validate: Steps between two looks at the barrier of validation networks; 0 for never.
        patience: Looks without improvement before training stops; 0 to go on to the end.
        checkpoint: Steps between two checkpoints; 0 for none.
        seed: Of everything drawn.
    """

    steps: int = 500
    pairs: int = 8
    labelled: int = 8
    images: int = 256
    mirror: bool = False
    lr: float = 2e-3
    weight_decay: float = 5e-4
    clip: float = 1.0
    ema: float = 0.0
    supervised: float = 1.0
    lmc: float = 1.0
    alignment: float = 1.0
    alignment_end: float | None = None
    activation: float = 0.0
    noise: float = 0.02
    noise_end: float | None = None
    mask: float = 0.05
    scale: float = 1.1
    temperature: float = 1.0
    iterations: int = 20
    hard: bool = False
    validate: int = 0
    patience: int = 0
    checkpoint: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for least, names in LEAST_OF.items():
            for name in names:
                value = getattr(self, name)
                if not (value is None or least <= value < math.inf):
                    raise ValueError(f"{name} is {value}, expected at least {least}")
        for name in ("lr", "clip", "temperature"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a number above 0")
        for name in ("ema", "mask"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 0 or more, below 1")
        if not (self.supervised or self.lmc or self.alignment):
            raise ValueError("supervised, lmc and alignment are all 0: there is no loss to train with")

    def weights(self, zoo: Zoo, step: int = 0) -> dict[str, float]:
        """Weights of the losses that count for a zoo at a step; others are not computed."""
        end = self.alignment if self.alignment_end is None else self.alignment_end
        done = step / max(1, self.steps)
        alignment = self.alignment + (end - self.alignment) * done
        weights = {"supervised": self.supervised, "lmc": self.lmc, "alignment": alignment}
        weights["activation"] = self.activation * (1 - done)
        return {k: w for k, w in weights.items() if w and not (k == "alignment" and zoo.task.own)}
