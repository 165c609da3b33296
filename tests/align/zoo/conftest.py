"""Zoos that train in a moment."""

from collections.abc import Callable
from pathlib import Path

import pytest

from align.zoo import Recipe, ZooConfig


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("WSGRAPH_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def waves() -> ZooConfig:
    """Two views per wave, four networks per shard."""
    args = {"inputs": 1, "outputs": 1, "hidden": 4, "layers": 3}
    recipe = Recipe(epochs=2, batch=256)
    return ZooConfig("waves", "inr", args, task="waves", data=None, recipe=recipe, together=4, views=2)


@pytest.fixture
def digits() -> ZooConfig:
    """Classifiers of digits, two per shard."""
    args = {"inputs": [1, 8, 8], "hidden": [6]}
    return ZooConfig("mlp", "mlp", args, shape=(1, 8, 8), recipe=Recipe(epochs=2, batch=64), together=2)


@pytest.fixture
def files() -> Callable[[Path], dict[str, bytes]]:
    """All files of a folder, byte by byte."""
    return lambda folder: {path.name: path.read_bytes() for path in folder.iterdir()}
