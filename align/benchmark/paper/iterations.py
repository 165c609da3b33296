"""What a start is worth: barrier and weight distance by the number of iterations that follow it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ...judging.compare import Method, aligned_by, mean_with_error
from ...judging.evaluation import line_barrier
from ...learning.stages import first_aligner, train_config
from ...plots import plot_curves
from ...progress import progress
from ...zoo import Zoo
from ..tables import both
from .notebook import Notebook, file_name
from .settings import Settings, training
from .subjects import Pair, Subjects, pairs_of, subjects, trained
from .waves import MAKE, OneForm

STARTS = {"nothing": "", "weight matching": "weight_matching+", "deep align": "deep_align+"}
"""What Sinkhorn re-basin starts from."""
ALONE = {
    "not aligned": "identity",
    "weight matching": "weight_matching",
    "deep align": "deep_align",
    "deep align + weight matching": "deep_align+weight_matching",
}
"""What needs no data, and where weight matching goes from the learned aligner's result."""
Points = dict[str, list[float]]
"""Barriers and distances of all pairs."""


def by_iteration(book: Notebook) -> None:
    """Measure every start at every number of iterations; a table, and a picture per family."""
    settings, rows = book.settings, []
    for title, known in _cases(book):
        pairs = pairs_of(known.zoos, settings.slow)
        curves: dict[str, tuple[list[int], list[float]]] = {}
        for label, name in ALONE.items():
            found = book.keep(f"{title}: {label}", _judged, name, 0, known, pairs, settings)
            rows.append([title, label, "0", *_cells(found)])
        for start, chain in STARTS.items():
            curves[f"from {start}"] = ([], [])
            for count in settings.counts:
                key = f"{title}: {count} Sinkhorn from {start}"
                found = book.keep(key, _judged, f"{chain}sinkhorn", count, known, pairs, settings)
                rows.append([title, f"Sinkhorn from {start}", str(count), *_cells(found)])
                curves[f"from {start}"][0].append(count)
                curves[f"from {start}"][1].append(float(torch.tensor(found["barrier"]).mean()))
        plot_curves(
            curves,
            book.folder / f"{file_name(title)}.png",
            "Sinkhorn iterations",
            "barrier",
            f"{settings.title}: {title}",
        )
    columns = ["networks", "method", "iterations", "barrier", "‖a − P b‖"]
    book.close(both(columns, rows))


def _cases(book: Notebook) -> Iterator[tuple[str, Subjects]]:
    """Every family, and once more where its networks can be brought into one form, with an aligner of its own."""
    for title, family in book.settings.families.items():
        known = subjects(book.folder, title, family, 1)
        yield title, known
        if known.zoos[0].config.make == MAKE:
            zoos: list[Zoo] = [OneForm(zoo) for zoo in known.zoos]
            config, folder = training(family, 0), book.folder / "aligners" / file_name(f"{title} in one form")
            aligner = trained(zoos, first_aligner(config), train_config(config), folder)
            yield f"{title} in one form", Subjects(zoos, [aligner])


def _judged(name: str, iterations: int, known: Subjects, pairs: Sequence[Pair], settings: Settings) -> Points:
    options: dict[str, Any] = {"aligner": known.aligners[0]} if "deep_align" in name else {}
    data = None
    if name.endswith("sinkhorn"):
        options, data = {**options, "iterations": iterations}, "some"
    method, found = Method(name, name, options, data), Points(barrier=[], distance=[])
    with progress(f"{name}, {iterations} iterations", len(pairs)) as step:
        for zoo, i, j in pairs:
            alignment = aligned_by(zoo, (i, j), method, settings.images)
            other = alignment.apply(zoo.module(j))
            line = line_barrier(zoo, [(i, j)], [other], "test", settings.samples, settings.points)
            found["barrier"].append(float(line))
            found["distance"].append(alignment.distance)
            step()
    return found


def _cells(found: Points) -> tuple[str, str]:
    barrier, distance = (torch.tensor(found[key]) for key in ("barrier", "distance"))
    return mean_with_error(barrier), mean_with_error(distance)
