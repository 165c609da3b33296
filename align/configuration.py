"""The configs of the commands: beside the packages in a checkout, inside ``align`` in an installed wheel."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

CHOICE = re.compile(r"\+{0,2}(?P<group>\w+)=(?P<name>[\w-]+)")
"""A word of a command line that may choose a config of a group, such as ``+arch=mlp``."""


def command(name: str) -> Callable[[Callable[[DictConfig], None]], Callable[[], None]]:
    """``hydra.main`` with the config called ``name``; a mistyped choice is answered with the nearest one."""

    def decorate(task: Callable[[DictConfig], None]) -> Callable[[], None]:
        main = hydra.main(version_base="1.3", config_path=str(config_folder()), config_name=name)(task)

        @functools.wraps(task)
        def run() -> None:
            sys.argv[1:] = spelled_out(sys.argv[1:])
            check_choices(sys.argv[1:])
            main()

        return run

    return decorate


def spelled_out(words: Sequence[str]) -> list[str]:
    """Words of a command line as Hydra takes them: data of one's own are no choice, but a setting of one."""
    out: list[str] = []
    for word in words:
        source = word.removeprefix("data=")
        if source != word and source not in choices("data") and is_own(source):
            quoted = source.replace("'", "\\'")
            out += ["data=own", f"data.source='{quoted}'"]
        else:
            out.append(word)
    return out


def is_own(source: str) -> bool:
    """Whether it looks like data of one's own rather than like the name of a data set."""
    return bool(Path(source).suffix) or ":" in source or Path(source).is_dir()


def check_choices(words: Sequence[str]) -> None:
    """Exit with the choices if a word of the command line chooses what there is not."""
    for word in words:
        found = CHOICE.fullmatch(word)
        there = choices(found["group"]) if found else []
        if found and there and found["name"] not in there:
            near = get_close_matches(found["name"], there, 1)
            hint = f"did you mean {word.partition('=')[0]}={near[0]}? " if near else ""
            sys.exit(f"{word}: no such {found['group']}; {hint}Choose one of {', '.join(there)}.")


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
