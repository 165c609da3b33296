"""The stages of a training, from the zoos to the report."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from hydra import compose
from lightning_fabric import Fabric
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from wsgraph import plain
from wsgraph.alone import alone

from ..deep_align import CONFIG, DeepAlign, config_from
from ..judging.compare import compare, results_table
from ..zoo import Zoo, build_all
from ..zoo.composed import build_zoos
from ..zoo.families import families
from .logs import Logs
from .report import write_run
from .settings import TrainConfig
from .trainer import make_fabric, train_aligner


def zoos_of(config: DictConfig) -> list[Zoo]:
    """The config's zoos, built where they are missing: one family, an experiment's ``families``, or drawn ones."""
    if "families" not in config:
        return build_zoos(config, config.zoo)
    if "drawn" in config.families:
        drawn = config.families.drawn
        chosen = families(drawn.count, drawn.get("more", ()), drawn.seed)
        return build_all(chosen, drawn.networks, config.zoo.workers)
    zoos = []
    for chosen in config.families:
        choices = [f"+arch={chosen.arch}", *([f"data={chosen.data}"] if "data" in chosen else [])]
        changes = [f"{key}={value}" for key, value in chosen.get("changes", {}).items()]
        where = [f"zoo.{key}={json.dumps(config.zoo[key])}" for key in ("engine", "workers", "address")]
        part = compose("config", overrides=[*choices, f"preset={config.preset.name}", *where, *changes])
        zoos += build_zoos(part, part.zoo)
    return zoos


def first_aligner(config: DictConfig) -> DeepAlign:
    """What training starts from: a new aligner, the pretrained one, or one of an earlier run."""
    if config.start == "pretrained":
        return DeepAlign()
    if config.start != "new":
        if not (Path(config.start) / CONFIG).is_file():
            raise ValueError(f"no aligner in start={config.start}; expected new, pretrained or a finished run's folder")
        return DeepAlign.from_pretrained(config.start)
    torch.manual_seed(config.seed)
    encoder: dict[str, Any] = OmegaConf.to_container(config.encoder)  # type: ignore[assignment]
    return DeepAlign(config_from({"encoder": encoder, "refinement": config.refinement, "pictures": config.pictures}))


def train_config(config: DictConfig) -> TrainConfig:
    """The settings of a training, each of the type and size it must be."""
    return plain.build(TrainConfig, {**config.loss, **config.optim, "seed": config.seed})


def run(config: DictConfig) -> None:
    """Zoos, aligner, comparison, report. What can be wrong with the settings comes to light before the work begins."""
    folder = Path(config.output)
    if config.resume not in ("auto", "never"):
        raise ValueError(f"resume={config.resume} is neither auto nor never")
    if config.start == "auto":
        config.start = "new" if config.zoo.files is None else "pretrained"
    settings = train_config(config)
    judging = plain.arguments(compare, config.eval, "eval")
    fabric = make_fabric(**config.fabric)
    fabric.launch()
    aligner = first_aligner(config)
    logs = Logs(folder, wandb=config.wandb, enabled=fabric.is_global_zero)
    refusal = ValueError(f"another training writes to {folder}; wait for it, or choose another folder with output=")
    with alone(folder, refusal) if fabric.is_global_zero else nullcontext():
        zoos = _train(aligner, config, settings, logs, fabric)
        if fabric.is_global_zero:
            _report(aligner.cpu(), config, zoos, judging)


def _train(aligner: DeepAlign, config: DictConfig, settings: TrainConfig, logs: Logs, fabric: Fabric) -> list[Zoo]:
    """Train the aligner on the config's zoos, and return these."""
    with fabric.rank_zero_first():
        zoos = zoos_of(config)
    if fabric.is_global_zero:
        Console(markup=False).print(f"{config.preset.name} scale; {', '.join(map(repr, zoos))}", soft_wrap=True)
    with logs:
        train_aligner(aligner, zoos, settings, config.output, config.resume == "auto", logs.report, fabric)
    return zoos


def _report(aligner: DeepAlign, config: DictConfig, zoos: list[Zoo], judging: dict[str, Any]) -> None:
    """Judge the aligner beside the classic methods, and write the run folder."""
    console, folder = Console(markup=False), Path(config.output)  # brackets in a path are no markup
    results = []
    for zoo in zoos:
        results.append(compare(aligner, zoo, **judging))
        console.print(results_table(zoo, results[-1]))
    write_run(folder, aligner, config, zoos, results)
    console.print(f"Run folder: {folder}   (open {folder / 'report.html'})", soft_wrap=True)
