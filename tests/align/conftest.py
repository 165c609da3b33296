"""A tiny zoo that several test files share."""

import pytest

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
