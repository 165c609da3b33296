"""What an experiment of the paper is made of, as ``configs/benchmark/`` says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from wsgraph import plain

from ...configuration import choices, config_folder
from ...data.store import is_here

GROUP = "benchmark"
SCALES = ("smoke", "laptop", "paper")
SLOW_ONLY = ("iterations", "disjoint", "planted")
"""Kinds that have no other pairs than those of slow methods."""


@dataclass(frozen=True)
class Family:
    """Networks of one kind, and an aligner for them.

    Attributes:
        train: Words of an ``align.train`` command that say which.
        reported: The paper's name for them in :mod:`~align.benchmark.paper.reported`.
        where: A data set; where its files are not, the family is left out.
    """

    train: tuple[str, ...]
    reported: str | None = None
    where: str | None = None


@dataclass(frozen=True)
class Settings:
    """An experiment.

    Attributes:
        kind: Which of :data:`~align.benchmark.paper.experiments.KINDS`.
        title: Of tables and pictures.
        scale: One of :data:`SCALES`.
        families: By name.
        differs: What the paper has otherwise, at this scale.
        seeds: Aligners that are trained for every family.
        pairs: Of test networks, disjoint; fewer where there are fewer.
        slow: Pairs for methods that optimise each pair for long; 0 to leave these out of a contest.
        points: On a line.
        samples: That losses are measured on.
        images: That methods see.
        sinkhorn: Iterations from a start.
        scratch: Iterations from nothing; 0 to leave that out.
        counts: What is counted along a curve: iterations, or training networks.
        variants: Further words of the training, by name.
    """

    kind: str
    title: str
    scale: str
    families: Mapping[str, Family]
    differs: str = ""
    seeds: int = 1
    pairs: int = 16
    slow: int = 4
    points: int = 11
    samples: int = 2_000
    images: int = 2_000
    sinkhorn: int = 100
    scratch: int = 0
    counts: tuple[int, ...] = ()
    variants: Mapping[str, tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        least = {"seeds": 1, "pairs": 1, "slow": 0, "points": 2, "samples": 1, "images": 1, "sinkhorn": 0, "scratch": 0}
        if self.kind in SLOW_ONLY:
            least["slow"] = 1
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise ValueError(f"{name}={getattr(self, name)}: expected at least {bound}")


def names() -> list[str]:
    """All experiments."""
    return choices(GROUP)


def read(name: str, words: Sequence[str] = ()) -> Settings:
    """The settings of an experiment, at the scale that ``words`` choose and with the changes that they make."""
    if name not in names():
        raise ValueError(f"no experiment {name!r}; choose one of {', '.join(names())}")
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        config = compose(f"{GROUP}/{name}", overrides=[_override(word) for word in words])
    data: dict[str, Any] = OmegaConf.to_container(config)  # type: ignore[assignment]
    scales, scale = data.pop("scales"), data["scale"]
    if scale not in SCALES:
        raise ValueError(f"scale={scale} is not one of {', '.join(SCALES)}")
    chosen = dict(scales[scale])
    words_of_scale = chosen.pop("train", [])
    own, few = chosen.pop("families", {}), chosen.pop("only", [])
    if unknown := set(own) - set(data["families"]):
        raise ValueError(f"scales.{scale}.families has {', '.join(unknown)}; there are {', '.join(data['families'])}")
    families = {
        title: plain.build(
            Family,
            {**family, "train": [*family["train"], *words_of_scale, *own.get(title, [])]},
            f"families.{title}",
        )
        for title, family in _chosen(data.pop("families"), data.pop("only") or few).items()
    }
    variants = data.pop("variants", None)
    found = {k: tuple(v) for k, v in variants.items()} if variants is not None else None
    given = {**chosen, **{k: v for k, v in data.items() if k not in chosen or _named(k, words)}}
    return plain.build(Settings, {**given, "families": families, "variants": found})


def _override(word: str) -> str:
    """Hydra refuses to set what a file leaves to the defaults of :class:`Settings`, unless it is told to add it."""
    return f"++{word}" if word.partition("=")[0] in {f.name for f in fields(Settings)} else word


def _chosen(families: Mapping[str, Any], words: Any) -> dict[str, Any]:
    """Families that a word names, or all whose data is here."""
    words = [str(word) for word in (words if isinstance(words, list) else [words])]
    for word in words:
        if not any(word in title for title in families):
            raise ValueError(f"no family contains {word}; there are {', '.join(families)}")
    return {
        title: family
        for title, family in families.items()
        if (any(word in title for word in words) if words else is_here(family.get("where", "digits")))
    }


def _named(key: str, words: Sequence[str]) -> bool:
    """Whether the command line sets it: that outdoes the scale."""
    return any(word.lstrip("+").partition("=")[0] == key for word in words)


def training(family: Family, seed: int, more: Sequence[str] = ()) -> DictConfig:
    """The config of the training that makes a family's networks and its aligner."""
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        return compose("config", overrides=["start=new", *family.train, *more, f"seed={seed}"])
