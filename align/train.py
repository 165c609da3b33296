"""Train an aligner for a family of networks: ``python -m align.train +arch=mlp``.

Networks are trained on the embedded digits on the spot, then the aligner on them; the result is a folder with the
aligner, its metrics against the classic methods on held-out networks, and a picture.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import hydra
import torch
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table
from torch.nn import functional as F

from .barrier import Barrier, barrier
from .configuration import choices, config_folder
from .deep_align import DeepAlign, config_from
from .demo import digits
from .match import match
from .plots import plot_lines
from .trainer import TrainConfig, train_aligner
from .zoo.architectures import ARCHITECTURES
from .zoo.family import Family, build_family
from .zoo.together import Recipe, Split


def family_of(config: DictConfig) -> Family:
    """Train the networks the config asks for."""
    arch = config.arch
    args: dict[str, Any] = OmegaConf.to_container(arch.args)  # type: ignore[assignment]
    data, held = (_resize(split, tuple(arch.image)) for split in digits(config.zoo.seed))
    make = ARCHITECTURES[arch.make]
    zoo = config.zoo
    recipe = Recipe(**arch.recipe)
    return build_family(
        arch.name, lambda: make(**args), data, held, zoo.train, zoo.test, recipe, zoo.together, zoo.seed
    )


def _resize(split: Split, shape: tuple[int, ...]) -> Split:
    x, y = split
    if x.shape[-2:] != shape[1:]:
        x = F.interpolate(x, size=shape[1:], mode="bilinear", antialias=True)
    return x.expand(-1, shape[0], -1, -1).contiguous(), y


def compare(aligner: DeepAlign, family: Family, pairs: int) -> dict[str, Barrier]:
    """Barrier of the aligner and of the classic methods between held-out networks."""
    a, b = family.test_pairs(pairs)
    inputs = family.data[0]
    methods: dict[str, tuple[str, dict[str, Any]]] = {
        "naive": ("identity", {}),
        "weight matching": ("weight_matching", {}),
        "activation matching": ("activation_matching", {"data": inputs}),
        "activation matching on noise": ("activation_matching", {"data": "noise"}),
        "deep align": ("deep_align", {"aligner": aligner}),
    }
    out = {}
    for label, (method, options) in methods.items():
        found = [match(x, y, method, example_input=inputs[:2], seed=0, **options) for x, y in zip(a, b, strict=True)]
        aligned = [f.apply(y) for f, y in zip(found, b, strict=True)]
        out[label] = barrier(a, aligned, data=family.held)
    return out


def save(folder: Path, aligner: DeepAlign, config: DictConfig, results: dict[str, Barrier]) -> None:
    """Write the run folder: aligner, config, metrics, picture."""
    folder.mkdir(parents=True, exist_ok=True)
    aligner.save_pretrained(folder)
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(config))
    metrics = {k: {"barrier": float(v), "auc": float(v.auc.mean())} for k, v in results.items()}
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=2))
    plot_lines(results, folder / "barrier.png", f"{config.arch.name}: loss between held-out networks")


@hydra.main(version_base="1.3", config_path=str(config_folder()), config_name="config")
def main(config: DictConfig) -> None:
    if "arch" not in config:
        sys.exit(f"no architecture chosen; pass +arch=<one of {', '.join(choices('arch'))}>")
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    console = Console()
    family = family_of(config)
    torch.manual_seed(config.seed)
    encoder: dict[str, Any] = OmegaConf.to_container(config.encoder)  # type: ignore[assignment]
    aligner = DeepAlign(config_from({"encoder": encoder, "refine": config.refine}))
    train_aligner(aligner, [family], TrainConfig(**config.loss, **config.optim, seed=config.seed))
    results = compare(aligner, family, config.eval_pairs)
    table = Table(title=f"{config.arch.name}: {config.eval_pairs} pairs of held-out networks")
    for column in ("method", "barrier", "AUC"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, result in results.items():
        error = float(result.barrier.std() / len(result.barrier) ** 0.5)
        table.add_row(name, f"{float(result):.3f} ± {error:.3f}", f"{float(result.auc.mean()):.3f}")
    console.print(table)
    save(Path(config.output), aligner, config, results)
    console.print(f"Run folder: {config.output}")


if __name__ == "__main__":
    main()
