"""What the variants of :mod:`align.benchmark.variants` change, as data: the command's help lists them."""

from __future__ import annotations

from typing import Any

ENCODER: dict[str, dict[str, Any]] = {
    "default": {},
    "1 sweep": {"sweeps": 1},
    "2 sweeps": {"sweeps": 2},
    "4 sweeps": {"sweeps": 4},
    "32 messages": {"messages": 32},
    "1 basis function": {"basis": 1},
    "4 basis functions": {"basis": 4},
    "128 channels": {"hidden": 128, "messages": 128},
    "grid codes": {"codes": "grid"},
}
"""Variants of :class:`wsgraph.EncoderConfig`."""
TRAINING: dict[str, dict[str, Any]] = {
    "default": {},
    "supervised only": {"lmc": 0.0, "alignment": 0.0},
    "LMC only": {"supervised": 0.0, "alignment": 0.0},
    "no alignment loss": {"alignment": 0.0},
    "hard permutations": {"hard": True},
    "temperature 0.5": {"temperature": 0.5},
    "temperature 2": {"temperature": 2.0},
    "5 Sinkhorn iterations": {"iterations": 5},
    "10 Sinkhorn iterations": {"iterations": 10},
    "16 images": {"images": 16},
    "64 images": {"images": 64},
    "no augmentation": {"noise": 0.0, "mask": 0.0, "scale": 1.0},
    "noise 0.2": {"noise": 0.2},
    "noise from 0.02 to 0.5": {"noise_end": 0.5},
    "noise from 0.5 to 0.02": {"noise": 0.5, "noise_end": 0.02},
    "lr 5e-4": {"lr": 5e-4},
    "lr 5e-3": {"lr": 5e-3},
    "EMA 0.98": {"ema": 0.98},
    "clip 0.05": {"clip": 0.05},
    "12 unlabelled pairs, 4 labelled": {"pairs": 12, "labelled": 4},
    "15 unlabelled pairs, 1 labelled": {"pairs": 15, "labelled": 1},
    "alignment loss twice": {"alignment": 2.0},
    "alignment loss fades": {"alignment_end": 0.0},
}
"""Variants of :class:`~align.learning.trainer.TrainConfig`."""
VARIANTS = {"encoder": ENCODER, "training": TRAINING}
