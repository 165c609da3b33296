"""The run folder of a training: aligner, config, metrics, pictures, and one page that shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from wsgraph.augment import Noise
from wsgraph.files import replacing

from ..deep_align import DeepAlign
from ..judging.barrier import Barrier
from ..judging.compare import COLUMNS, cells, pairs_in_words, summary, title_of
from ..judging.evaluation import pairs_of
from ..plots import plot_lines, plot_permutations
from ..reporting.curve import SCRIPT, curve
from ..reporting.page import folded, heading, paragraph, picture, table, write_page
from ..zoo import Zoo
from .pairs import LabelledPairs

Results = Sequence[dict[str, Barrier]]
Rows = dict[str, dict[str, Any]]
Metrics = dict[str, Rows]
PLANTED = "networks and their permuted, noisy copies, first layer"
DEFINITION = """The barrier is the largest loss on the line between two networks above the line of their own losses, AUC
the mean of what is above it (of both, lower is better, and 0 means one basin), and accuracy half way that of the
networks' average; ± is one standard error over pairs. Networks and samples were held out."""


def write_run(folder: Path, aligner: DeepAlign, config: DictConfig, zoos: Sequence[Zoo], results: Results) -> None:
    """Write everything a reader of the run needs."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = OmegaConf.to_yaml(config, resolve="arch" in config)  # an experiment has no architecture of its own
    _write(folder / "config.yaml", settings)
    metrics = {zoo.folder.name: summary(result) for zoo, result in zip(zoos, results, strict=True)}
    _write(folder / "metrics.json", json.dumps(metrics, indent=2))
    _write(folder / "README.md", card(zoos, metrics))  # before the aligner, which would bring an empty one
    aligner.save_pretrained(folder)
    for zoo, result in zip(zoos, results, strict=True):
        name, title = zoo.folder.name, title_of(zoo)
        plot_lines(result, folder / f"{name}-lines.png", f"{title}: loss between held-out networks")
        plot_permutations(predictions(aligner, zoo), folder / f"{name}-permutations.png", f"{title}: {PLANTED}")
    write_page(folder / "report.html", _title(zoos), page(folder, zoos, results, metrics, settings))


CARD = """---
library_name: wsgraph
---

# {title}

`align.DeepAlign.from_pretrained(folder)` loads it; `config.yaml` has every setting of its training.

{definition}

{tables}
"""


def card(zoos: Sequence[Zoo], metrics: Metrics) -> str:
    """The aligner's model card, in Markdown."""
    tables = []
    for zoo in zoos:
        rows = metrics[zoo.folder.name]
        lines = [" | ".join((label, *cells(row))) for label, row in rows.items()]
        head = f"{title_of(zoo)}: {_networks(zoo, rows)}.\n\n| {' | '.join(COLUMNS)} |\n|---|---:|---:|---:|\n"
        tables.append(head + "\n".join(f"| {line} |" for line in lines))
    return CARD.format(title=_title(zoos), definition=DEFINITION, tables="\n\n".join(tables))


def predictions(aligner: DeepAlign, zoo: Zoo, count: int = 3) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Scores, prediction and truth of the first layer, for test networks against permuted and noisy copies."""
    pairs = [LabelledPairs(zoo, "test", Noise(0.05))[k] for k in range(min(count, len(zoo.members("test"))))]
    group = next(iter(zoo.spec.free)).name
    out = {}
    for k, pair in enumerate(pairs):
        found = aligner(pair.a, pair.b)
        assert pair.label is not None
        out[f"network {k + 1}"] = (found.scores[group], found.permutation.maps[group], pair.label.maps[group])
    return out


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text)


def page(folder: Path, zoos: Sequence[Zoo], results: Results, metrics: Metrics, settings: str) -> Iterator[str]:
    """What the report shows; its pictures are those of the folder."""
    yield paragraph(DEFINITION)
    for zoo, result in zip(zoos, results, strict=True):
        name, rows = zoo.folder.name, metrics[zoo.folder.name]
        yield heading(title_of(zoo))
        yield paragraph(f"{_networks(zoo, rows)}.")
        yield table(COLUMNS, [(label, *cells(row)) for label, row in rows.items()])
        yield curve(result)
        yield picture(folder / f"{name}-permutations.png", f"permutations: {PLANTED}")
    yield folded("Settings", settings)
    yield SCRIPT


def _title(zoos: Sequence[Zoo]) -> str:
    return "Aligner for " + ", ".join(dict.fromkeys(title_of(zoo) for zoo in zoos))


def _networks(zoo: Zoo, rows: Rows) -> str:
    """How many networks the numbers are about, and how many there are to train aligners on."""
    pairs = pairs_of(zoo, "test", next(iter(rows.values()))["pairs"])
    used = len({number for pair in pairs for number in pair})
    rest = f"{len(zoo)} networks, {len(zoo.members('train'))} of them to train aligners on"
    return f"{pairs_in_words(len(pairs))} of {used} held-out networks; {zoo.folder.name} has {rest}"
