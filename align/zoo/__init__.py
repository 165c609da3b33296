"""Zoos: many trained networks, built by ``python -m align.zoo``, stored safely, opened lazily."""

from .building import build, build_all, zoo_folder
from .config import ZooConfig
from .engines import BuildError
from .together import Recipe
from .zoo import DamagedShardError, Zoo

__all__ = ["BuildError", "DamagedShardError", "Recipe", "Zoo", "ZooConfig", "build", "build_all", "zoo_folder"]
