"""Where the configs are: beside the packages in a checkout, inside ``align`` in an installed wheel."""

from __future__ import annotations

import sys
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig


def config_folder() -> Path:
    """The folder of ``config.yaml``."""
    inside = Path(__file__).parent / "configs"
    beside = Path(__file__).parent.parent / "configs"
    for folder in (inside, beside):
        if (folder / "config.yaml").is_file():
            return folder
    raise FileNotFoundError(f"no config.yaml in {inside} or {beside}; is the installation complete?")


def choices(group: str) -> list[str]:
    """Names of the configs of a group, e.g. of ``arch``."""
    return sorted(path.stem for path in (config_folder() / group).glob("*.yaml"))


def require_arch(config: DictConfig) -> None:
    """Exit with the choices unless exactly one architecture was chosen."""
    if "arch" not in config:
        sys.exit(f"no architecture chosen; pass +arch=<one of {', '.join(choices('arch'))}>")
    several = [word for word in HydraConfig.get().overrides.task if word.startswith("+arch=[")]
    if several:
        sys.exit(f"{several[0]} would merge them into one; list them in an experiment, as configs/experiment does")
