"""Leave one out: aligners trained without one kind of networks (or all but two data sets), judged on what they missed.

Every training is short and starts anew, on the families of the ``universal`` experiment and with its settings. It goes
on from its checkpoint when the command was interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from hydra import compose, initialize_config_dir

from ..configuration import config_folder
from ..deep_align import DeepAlign, DeepAlignConfig
from ..judging.compare import title_of
from ..learning.settings import TrainConfig
from ..learning.trainer import train_aligner
from ..zoo import Zoo, ZooConfig, build_all
from ..zoo.families import family
from .board import Board

TITLE = "Aligners and what they never saw"
LEARNED = ("digits", "fashion_mnist")
"""Data sets that an aligner learns from which is then judged on others."""


def kind_of(config: ZooConfig) -> str:
    """The kind of a family, which its name ends with."""
    return config.name.partition("-")[2]


MISSING: dict[str, Callable[[ZooConfig], bool]] = {
    "dense": lambda config: kind_of(config) == "dense",
    "convolutional": lambda config: kind_of(config) == "convolutional",
    "residual": lambda config: kind_of(config) in ("residual", "dense_residual"),
    "transformer": lambda config: kind_of(config) == "transformer",
    "recurrent": lambda config: kind_of(config) == "recurrent",
    "tables and INRs": lambda config: kind_of(config) in ("table", "inr"),
    "other data": lambda config: config.data not in LEARNED,
}
"""What is left out: six kinds of networks, and all data sets but two."""
FAMILIES, NETWORKS = 26, 24
"""Families in all, and networks of each."""
JUDGED, PAIRED = 3, 8
"""Families left out that are judged, and networks of each, in disjoint pairs."""


def leave_one_out(words: Sequence[str], output: Path, steps: int, families: int = FAMILIES) -> None:
    """Train without each kind and judge on it; the folder ``output`` gets tables, pictures and checkpoints."""
    chosen = {name: test for name, test in MISSING.items() if not words or any(w in name for w in words)}
    if not chosen:
        sys.exit(f"nothing to leave out contains {' or '.join(words)}; choose among {', '.join(MISSING)}")
    folder, (config, sizes) = output / f"{steps}-steps", settings(steps)
    board = Board(folder, f"{TITLE}, {steps} steps")
    zoos = build_all([family(k) for k in range(families)], NETWORKS)
    for name, missing in chosen.items():
        torch.manual_seed(config.seed)
        rest = [zoo for zoo in zoos if not missing(zoo.config)]
        run = folder / "runs" / name.replace(" ", "-")
        aligner = train_aligner(DeepAlign(sizes), rest, config, run, resume=True)
        for zoo in [zoo for zoo in zoos if missing(zoo.config)][:JUDGED]:
            board.judge(name, title_of(zoo), Zoo(zoo.folder, PAIRED), aligner)
    board.show()


def settings(steps: int) -> tuple[TrainConfig, DeepAlignConfig]:
    """Those of the ``universal`` experiment, but shorter, and nothing is validated: the last aligner counts."""
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        config = compose("config", overrides=["+experiment=universal"])
    shorter = {**config.optim, "steps": steps, "validate": 0, "patience": 0}
    return TrainConfig(**config.loss, **shorter, seed=config.seed), DeepAlignConfig(refinement=config.refinement)
