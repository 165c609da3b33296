"""Every experiment of the paper by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from wsgraph.alone import alone

from .contest import contest
from .disjoint import disjoint
from .iterations import by_iteration
from .notebook import Notebook
from .planted import planted
from .runtime import runtime
from .settings import read
from .trainings import by_count, by_loss

KINDS: Mapping[str, Callable[[Notebook], None]] = {
    "contest": contest,
    "iterations": by_iteration,
    "losses": by_loss,
    "samples": by_count,
    "disjoint": disjoint,
    "runtime": runtime,
    "planted": planted,
}
"""What is done, by the ``kind`` of a config."""


def run(name: str, words: Sequence[str], output: Path) -> None:
    """Do an experiment, or what is left of it; tables and pictures go below ``output``."""
    settings = read(name, words)
    if settings.kind not in KINDS:
        raise ValueError(f"kind {settings.kind!r} is not one of {', '.join(KINDS)}")
    folder = output / name
    refusal = ValueError(f"another process writes to {folder}; wait for it, or choose another folder with --output")
    with alone(folder, refusal):
        KINDS[settings.kind](Notebook(folder, settings))
