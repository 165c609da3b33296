"""Networks that learned from different classes: loss and accuracy on all classes along the line between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ...deep_align import DeepAlign
from ...judging.barrier import barrier
from ...judging.compare import standard_error, with_error
from ...learning.stages import first_aligner, train_config
from ...matching import match
from ...plots import plot_line_panels
from ...progress import progress
from ...zoo import Zoo
from ..tables import both
from .measuring import Measured, curve
from .notebook import Notebook, file_name
from .settings import Settings, training
from .subjects import networks, trained

SIDES = (("data.side=first",), ("data.side=second", "zoo.seed=1"))
"""95 % of the images of half of the classes, and 5 % of the others. Seeds differ: networks of one seed start as one,
and are half aligned before they are trained."""
METHODS = {
    "not aligned": ("identity", False),
    "weight matching": ("weight_matching", False),
    "activation matching": ("activation_matching", True),
    "deep align": ("deep_align", False),
    "deep align + Sinkhorn": ("deep_align+sinkhorn", True),
}
"""Label → name, and whether it sees images of all classes."""


def disjoint(book: Notebook) -> None:
    """Measure, and write a table of losses and accuracies at the ends and half way, and a picture."""
    settings, rows, panels = book.settings, [], {}
    for title, family in settings.families.items():
        left, right = (networks(family, side)[0] for side in SIDES)
        config = training(family, 0)
        aligner = trained(
            [left, right], first_aligner(config), train_config(config), book.folder / "aligners" / file_name(title)
        )
        pairs = list(zip(left.members("test"), right.members("test"), strict=False))[: settings.slow]
        found = {
            label: book.keep(f"{title}: {label}", _lines, label, left, right, pairs, aligner, settings)
            for label in METHODS
        }
        panels[title] = {label: curve(measured) for label, measured in found.items()}
        rows += [[title, label, *_cells(measured)] for label, measured in found.items()]
    plot_line_panels(panels, book.folder / "lines.png", settings.title)
    ends = ("loss of the first", "half way", "of the second", "accuracy of the first", "half way", "of the second")
    book.close(both(["networks", "method", *ends], rows))


def _lines(
    label: str, left: Zoo, right: Zoo, pairs: Sequence[tuple[int, int]], aligner: DeepAlign, settings: Settings
) -> Measured:
    task = replace(left.config, side="all").make_task()
    x, y = (t[: settings.images] for t in task.samples("train"))
    judged = tuple(t[: settings.samples] for t in task.samples("test"))
    name, sees = METHODS[label]
    options: dict[str, Any] = {"aligner": aligner} if "deep_align" in name else {}
    if sees:
        options["data"] = (x, y)
    if name.endswith("sinkhorn"):
        options["iterations"] = settings.sinkhorn
    lines = []
    with progress(label, len(pairs)) as step:
        for i, j in pairs:
            a, b = left.module(i), right.module(j)
            alignment = match(a, b, name, example_input=x[:2], **options)
            lines.append(barrier(a, b, task.loss, judged, settings.points, alignment=alignment))
            step()
    accuracy = [[line.accuracy.tolist() for line in lines if line.accuracy is not None]]
    return {"points": lines[0].points.tolist(), "loss": [[line.loss.tolist() for line in lines]], "accuracy": accuracy}


def _cells(measured: Measured) -> list[str]:
    """At λ = 1 (the first network), half way and at λ = 0: losses, then accuracies."""
    cells = []
    for key, shown in (("loss", with_error), ("accuracy", lambda value, _: f"{value:.1%}")):
        lines = torch.tensor(measured[key][0])
        for point in (-1, lines.shape[1] // 2, 0):
            cells.append(shown(float(lines[:, point].mean()), standard_error(lines[:, point])))
    return cells
