"""Zoos: many trained networks, built by ``python -m align.zoo``, stored safely, opened lazily."""

from typing import TYPE_CHECKING

from wsgraph.lazy import attach

__all__ = [
    "BuildError",
    "DamagedShardError",
    "Recipe",
    "Zoo",
    "ZooConfig",
    "build",
    "build_all",
    "from_checkpoints",
    "zoo_folder",
]

if TYPE_CHECKING:
    from .building import build as build
    from .building import build_all as build_all
    from .building import zoo_folder as zoo_folder
    from .config import ZooConfig as ZooConfig
    from .engines import BuildError as BuildError
    from .given import from_checkpoints as from_checkpoints
    from .together import Recipe as Recipe
    from .zoo import DamagedShardError as DamagedShardError
    from .zoo import Zoo as Zoo
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "BuildError": ".engines",
            "DamagedShardError": ".zoo",
            "Recipe": ".together",
            "Zoo": ".zoo",
            "ZooConfig": ".config",
            "build": ".building",
            "build_all": ".building",
            "from_checkpoints": ".given",
            "zoo_folder": ".building",
        },
    )
