"""Tiny zoos and trained networks that several test files share."""

import pytest
import torch
from networks import mlp
from torch.nn import functional as F

from align.zoo import Recipe, ZooConfig, build


@pytest.fixture(scope="session")
def tiny_zoo(tmp_path_factory):
    """24 digits MLPs 64-12-12-10, barely trained: 16 to train, 4 to validate, 4 to test aligners."""
    config = ZooConfig(
        "tiny", "mlp", {"inputs": [1, 8, 8], "hidden": [12, 12]}, recipe=Recipe(6, 64, 1e-2), together=12
    )
    return build(config, 24, tmp_path_factory.mktemp("zoo"))


@pytest.fixture(scope="session")
def wave_zoo(tmp_path_factory):
    """Twelve waves, two views each, of width 8."""
    args = {"inputs": 1, "outputs": 1, "hidden": 8, "layers": 3}
    config = ZooConfig("waves", "inr", args, "waves", None, recipe=Recipe(60, 256, 1e-3), together=24, views=2)
    return build(config, 24, tmp_path_factory.mktemp("waves"))


@pytest.fixture(scope="session")
def pair():
    """Two MLPs 6-16-16-3 that learned the same, and what they learned from."""
    torch.manual_seed(0)
    x = torch.randn(256, 6)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    models = []
    for _ in range(2):
        model = mlp(6, 16, 16, 3)
        optimiser = torch.optim.Adam(model.parameters(), 1e-2)
        for _ in range(150):
            optimiser.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimiser.step()
        models.append(model.eval())
    return *models, (x, y)
