"""The bundled aligner's model card, written from what is on disk: its run folder, its families, its zero-shot results.

``python -m align.benchmark card outputs/universal`` after ``python -m align.benchmark zero-shot``. Without the folder,
only the results are written anew, and what the card says of the training stays.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from wsgraph.files import replacing

from ..configuration import config_folder
from ..deep_align import BUNDLED, DeepAlign
from ..judging.evaluation import NOTHING
from ..zoo import ZooConfig
from ..zoo.families import families
from .board import markdown, read_results, row_of
from .contest import CLASSIC, FREE, Row, digest, ratio
from .mixture import describe
from .zero_shot import ROWS, SECTION, SEED

EXPERIMENT = "universal"
CARD_NAME = "README.md"
CARD = """# The bundled aligner

What `align.DeepAlign()` loads: {parameters:,} parameters, {megabytes:.1f} MB, safetensors. It aligns two networks of
one architecture in one forward pass, without data; what it says of plain MLPs, it refines in {refinement} steps on what
they [dream of](../../docs/training.md#dreams), and other networks of images it runs on {pictures} [pictures that nobody
took](../../docs/training.md#pictures). `python -m align.benchmark card` wrote this card.

## How it was made

```text
{commands}
```

{made}

## What it has seen

{seen}

**Not seen:** any network of the results below (seed {seed}), and whatever is larger than the ranges above or of another
kind.

## How well it does

{known}

"""
RESULTS = """\
Barriers between networks of families that it never saw, by `python -m align.benchmark zero-shot`: mean ± one
standard error over disjoint pairs, {points} points on the line. The last columns are *deep align* relative to the best
classic method.

{table}
## Limits

{limits}
- An aligner trained on for a few hundred steps on networks of one family should be better there: `start=pretrained`.
- Sine INRs have symmetries that are no permutations (signs, phases); their barrier stays high with every method.
- Networks of more than two million weights are seen with one view of the codes only.
- Two networks trained on very different data may have no common basin at all. Judge with `align.barrier` before you
  trust an average.
"""


def write(run: Path | None, results: Path, bundled: Path = BUNDLED) -> None:
    """Write the card into the folder of the bundled aligner; without the training's folder, its results only."""
    try:
        text = (told_before(bundled) if run is None else told(run, bundled)) + measured(results, bundled)
    except (ValueError, FileNotFoundError) as error:
        sys.exit(str(error))
    with replacing(bundled / CARD_NAME) as temporary:
        temporary.write_text(text)
    Console(markup=False).print(f"Model card: {bundled / 'README.md'}", soft_wrap=True)


def told(run: Path, bundled: Path = BUNDLED) -> str:
    """How it was made and what it has seen.

    Args:
        run: Folder of the training that made the aligner; of earlier stages, its ``start`` tells the folder.
        bundled: Folder of the aligner.
    """
    aligner = DeepAlign.from_pretrained(bundled)
    stages = list(_stages(run))
    if digest(DeepAlign.from_pretrained(run)) != digest(aligner):
        raise ValueError(
            f"the aligner in {run} is not the one in {bundled}; copy its config.json and model.safetensors there, and "
            "run python -m align.benchmark zero-shot, before the card is written"
        )
    seen = {config.folder_name: config for stage in stages for config in _families(stage)}
    return CARD.format(
        parameters=sum(p.numel() for p in aligner.parameters()),
        megabytes=(bundled / "model.safetensors").stat().st_size / 1e6,
        refinement=aligner.config.refinement,
        pictures=aligner.config.pictures,
        commands="\n".join(_command(stage) for stage in stages),
        made="\n".join(f"- {_made(stage)}" for stage in stages),
        seen=describe(list(seen.values()), stages[-1].families.drawn.networks),
        seed=SEED,
        known=_known(json.loads((run / "metrics.json").read_text())),
    )


def told_before(bundled: Path = BUNDLED) -> str:
    """The same as the present card has it."""
    before, results, _ = (bundled / CARD_NAME).read_text().partition(RESULTS.split(",")[0])
    if not results:
        raise ValueError(f"{bundled / CARD_NAME} is no card of this command; name the folder of the training")
    return before


def measured(results: Path, bundled: Path = BUNDLED) -> str:
    """How well it does on families that it never saw.

    Args:
        results: Folder of the zero-shot results.
        bundled: Folder of the aligner.
    """
    rows = _rows(results, digest(DeepAlign.from_pretrained(bundled)))
    points = len(next(iter(next(iter(rows.values())).values())).points)
    return RESULTS.format(points=points, table=markdown(rows), limits="\n".join(_limits(rows)))


def _rows(results: Path, aligner: str) -> dict[str, Row]:
    """The zero-shot rows, all of them and all of this aligner."""
    stored = read_results(results).get(SECTION, {})
    lacking = [name for name in ROWS if stored.get(name, {}).get("aligner") != aligner]
    if lacking:
        raise ValueError(
            f"{results} has no results of the bundled aligner for {', '.join(lacking)}; run python -m align.benchmark "
            "zero-shot first"
        )
    return {name: row_of(stored[name]) for name in ROWS}


def _stages(run: Path) -> Iterator[DictConfig]:
    """Configs of a training and of those it started from, the first one first."""
    path = run / "config.yaml"
    if not path.is_file():
        raise FileNotFoundError(f"no config.yaml in {run}; expected the folder of a finished align.train")
    config = OmegaConf.load(path)
    assert isinstance(config, DictConfig)
    if "drawn" not in config.get("families", {}):
        raise ValueError(f"{path} has no families.drawn; expected a run of +experiment={EXPERIMENT}")
    if config.start not in ("new", "pretrained"):
        yield from _stages(Path(config.start))
    yield config


def _families(config: DictConfig) -> list[ZooConfig]:
    drawn = config.families.drawn
    return families(drawn.count, drawn.get("more", ()), drawn.seed)


def _command(config: DictConfig) -> str:
    """The command that makes this config: the experiment, and what differs from it."""
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        plain = dict(_leaves(OmegaConf.to_container(compose("config", overrides=[f"+experiment={EXPERIMENT}"]))))
    plain["start"] = "new"  # which is what auto means for zoos of ours
    changed = [(key, value) for key, value in _leaves(OmegaConf.to_container(config)) if plain.get(key) != value]
    changes = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in changed]
    return " ".join([f"python -m align.train +experiment={EXPERIMENT}", *changes])


def _leaves(tree: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by their dotted names."""
    for key, value in tree.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _made(config: DictConfig) -> str:
    """A stage of the training in words."""
    optim, drawn, families_seen = config.optim, config.families.drawn, len(_families(config))
    known = {"new": "from scratch", "pretrained": "from the aligner bundled before"}
    average = f", averaged over steps (EMA {optim.ema:g})" if optim.ema else ""
    kept = f"; of looks every {optim.validate} steps the best on validation networks was kept" if optim.validate else ""
    return (
        f"{optim.steps:,} steps {known.get(config.start, 'from the stage before')} on {families_seen} families of "
        f"{drawn.networks} networks (seed {drawn.seed}), each step {optim.pairs} unlabelled and {optim.labelled} "
        f"labelled pairs of one family; learning rate {optim.lr:g}{average}{kept}. Seed {config.seed}."
    )


def _known(metrics: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """How it does on held-out networks of the families that it learned from."""
    ratios = []
    for rows in metrics.values():
        floor = NOTHING * rows["not aligned"]["barrier"] + 1e-12  # next to nothing, in units of nothing done
        best = min(rows[label]["barrier"] for label in ("weight matching", "activation matching on noise"))
        ratios.append((rows["deep align"]["barrier"] + floor) / (best + floor))
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return (
        f"On held-out networks of the {len(ratios)} families it learned from, its barrier relative to the better of "
        f"weight matching and activation matching on noise is {mean:.2f} in the geometric mean, and below 1 on "
        f"{sum(r < 1 for r in ratios)} of them."
    )


def _limits(rows: Mapping[str, Row]) -> Iterator[str]:
    """Where it loses, by the results."""
    for others, what in ((FREE, "without data"), (CLASSIC, "with images")):
        lost = [(name, found) for name, row in rows.items() if (found := ratio(row, "deep align", others)) > 1]
        if lost:
            listed = ", ".join(f"{name} ({found:.2f} ×)" for name, found in lost)
            yield f"- It loses to the best classic method {what} on: {listed}."
    yield "- `align.match(a, b)` tries the other methods too, and keeps the best by what it can see."
