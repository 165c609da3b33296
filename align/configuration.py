"""Where the configs are: beside the packages in a checkout, inside ``align`` in an installed wheel."""

from __future__ import annotations

from pathlib import Path


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
