"""The 8 × 8 digits that come with scikit-learn: real handwriting, no files, no network."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits

from .formats import RawSet

TRAIN = 1_400
"""The first so many images of a fixed random order are the train set, the others the test set."""


def read() -> RawSet:
    """The raw set; pixels go from 0 to 16."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.uint8)[:, None]
    labels = torch.tensor(data.target, dtype=torch.uint8)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    train, test = order[:TRAIN], order[TRAIN:]
    return {
        "train_images": images[train],
        "train_labels": labels[train],
        "test_images": images[test],
        "test_labels": labels[test],
    }
