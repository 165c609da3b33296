"""Zoos as composed configs describe them."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from wsgraph.checkpoints import EXPECTED

from ..data import DataSet, FetchError
from ..data.own import own_data
from ..engines.processes import WorkerDiedError
from .architectures import ARCHITECTURES, own_class, own_network
from .building import build
from .config import ZooConfig
from .engines import BuildError
from .given import from_checkpoints
from .task import loaded
from .zoo import Zoo

OWN = "own"
"""The choice of ``data`` that is the user's."""

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
    if data is not None and data.name == OWN:
        raise ValueError(
            f"data={data.source} is your own, and networks are trained here on data sets of this package only; name "
            "networks that you trained on it, zoo.files='runs/*.safetensors', or choose a data set"
        )
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
    """Build what is missing of the config's zoos, and open them; or open the networks that the user has."""
    if zoo.get("files") is not None:
        return [given_zoo(config, zoo)]
    configs = zoo_configs(config, zoo)
    if zoo.folder is not None and len(configs) > 1:
        raise ValueError(f"folder= names one folder, but {config.arch.name} is {len(configs)} zoos; leave it out")
    return [build(c, zoo.count, zoo.folder, zoo.engine, zoo.workers, zoo.address) for c in configs]


def given_zoo(config: DictConfig, zoo: DictConfig) -> Zoo:
    """The networks in the user's files, as a zoo.

    Args:
        config: Holds ``arch`` (a class and its arguments) and ``data``.
        zoo: Holds ``files`` and ``seed``.
    """
    arch: dict[str, Any] = OmegaConf.to_container(config.arch, resolve=True)  # type: ignore[assignment]
    (changes, *more) = arch["variants"].values()
    if more or arch["task"] != "classify":
        raise ValueError(
            f"zoo.files= are networks of one architecture for one task, and {arch['name']} is none; name their class: "
            "+arch=own arch.make=package.module:Class"
        )
    template = own_network(arch["make"], {**arch["args"], **changes})
    return from_checkpoints(matching(zoo.files), model=template, data=_data(config), name=arch["name"], seed=zoo.seed)


def matching(files: Any) -> list[Path]:
    """What one or several patterns such as ``runs/*.safetensors`` stand for, in the order of their names."""
    patterns = [files] if isinstance(files, str) else list(files)
    found = {Path(path) for pattern in patterns for path in glob.glob(str(pattern), recursive=True)}
    if not found:
        raise ValueError(
            f"zoo.files={patterns[0] if len(patterns) == 1 else patterns} matches no file in {Path.cwd()}; expected a "
            f"pattern in quotes, as zoo.files='runs/*.safetensors', of networks, each {EXPECTED}"
        )
    return sorted(found)


def _data(config: DictConfig) -> DataSet | tuple[Any, Any]:
    if config.data.name != OWN:
        return loaded(config.data.name, config.arch.shape)
    found = own_data(config.data.source, config.data.shape)
    if not isinstance(found, (DataSet, tuple)):
        raise ValueError(f"{config.data.source} has inputs only, and a loss needs targets, too; add an entry targets")
    return found
