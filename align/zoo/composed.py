"""Zoos as composed configs describe them."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..data import FetchError
from ..engines.processes import WorkerDiedError
from .architectures import ARCHITECTURES, own_class
from .building import build
from .config import ZooConfig
from .engines import BuildError
from .zoo import Zoo

FAILURES = (ValueError, OSError, ImportError, FetchError, BuildError, WorkerDiedError)
"""What building zoos may end with; the message says all that a user of a command needs."""


def zoo_configs(config: DictConfig, zoo: DictConfig) -> list[ZooConfig]:
    """One zoo per variant of the architecture.

    Args:
        config: Holds ``arch``, ``data`` and ``preset``.
        zoo: Holds ``split`` and ``seed``.
    """
    arch: dict[str, Any] = OmegaConf.to_container(config.arch, resolve=True)  # type: ignore[assignment]
    data = config.data if arch["task"] != "waves" else None
    common = {
        "make": arch["make"],
        "task": arch["task"],
        "data": data.name if data else None,
        "shape": arch["shape"],
        "side": data.side if data else "all",
        "recipe": arch[config.preset.name]["recipe"],
        "together": arch["together"],
        "views": arch["views"],
        "split": list(zoo.split),
        "seed": zoo.seed,
    }
    own = None if arch["make"] in ARCHITECTURES else own_class(arch["make"])
    return [
        ZooConfig.from_json({"name": name, "args": {**arch["args"], **changes}, **common}, own)
        for name, changes in arch["variants"].items()
    ]


def build_zoos(config: DictConfig, zoo: DictConfig) -> list[Zoo]:
    """Build what is missing of the config's zoos, and open them."""
    configs = zoo_configs(config, zoo)
    if zoo.folder is not None and len(configs) > 1:
        raise ValueError(f"folder= names one folder, but {config.arch.name} is {len(configs)} zoos; leave it out")
    return [build(c, zoo.count, zoo.folder, zoo.engine, zoo.workers, zoo.address) for c in configs]
