"""Networks that learned from different classes: loss and accuracy on all classes along the line between them."""

from __future__ import annotations

from dataclasses import replace

import torch

from ...deep_align import DeepAlign
from ...judging.compare import Method, mean_with_error
from ...learning.stages import first_aligner, train_config
from ...plots import plot_line_panels
from ...running.networks import Tensors
from ...zoo import Zoo
from ..tables import both
from .measuring import Entry, Measured, curve, measure
from .notebook import Notebook, file_name
from .settings import Settings, training
from .subjects import Pair, networks, trained

SIDES = (("data.side=first",), ("data.side=second", "zoo.seed=1"))
"""95 % of the images of half of the classes, and 5 % of the others. Seeds differ: networks of one seed start as one,
and are half aligned before they are trained."""


class Both(Zoo):
    """The networks of two zoos as those of one, whose task has all classes; even numbers are of the first.

    Args:
        first: A zoo.
        second: Another, of the same architecture.
    """

    def __init__(self, first: Zoo, second: Zoo) -> None:
        self.sides = (first, second)
        self.folder, self.count, self.config = first.folder, None, replace(first.config, side="all")
        self.records = {2 * n + k: record for k, zoo in enumerate(self.sides) for n, record in zoo.records.items()}

    def __reduce__(self) -> tuple[type[Both], tuple[Zoo, Zoo]]:  # type: ignore[override]
        return Both, self.sides

    def tensors(self, number: int) -> Tensors:
        n, side = divmod(number, 2)
        return self.sides[side].tensors(n)


def disjoint(book: Notebook) -> None:
    """Measure, and write a table of losses and accuracies at the ends and half way, and a picture."""
    settings, rows, panels = book.settings, [], {}
    for title, family in settings.families.items():
        zoo = Both(*(networks(family, side)[0] for side in SIDES))
        config, folder = training(family, 0), book.folder / "aligners" / file_name(title)
        aligner = trained([zoo], first_aligner(config), train_config(config), folder)
        pairs = across(zoo, settings.slow)
        found = {
            entry.label: book.keep(f"{title}: {entry.label}", measure, entry, pairs, settings)
            for entry in entries(aligner, settings)
        }
        panels[title] = {label: curve(measured) for label, measured in found.items()}
        rows += [[title, label, *_cells(measured)] for label, measured in found.items()]
    plot_line_panels(panels, book.folder / "lines.png", settings.title)
    ends = ("loss of the first", "half way", "of the second", "accuracy of the first", "half way", "of the second")
    book.close(both(["networks", "method", *ends], rows))


def across(zoo: Both, count: int) -> list[Pair]:
    """Disjoint pairs of test networks, one of each side."""
    first, second = ([n for n in zoo.members("test") if n % 2 == side] for side in range(2))
    pairs: list[Pair] = [(zoo, i, j) for i, j in zip(first, second, strict=False)]
    return pairs[:count]


def entries(aligner: DeepAlign, settings: Settings) -> list[Entry]:
    """What is compared; what sees images sees those of all classes."""
    iterations = {"iterations": settings.sinkhorn}
    return [
        Entry(Method("not aligned", "identity", {})),
        Entry(Method("weight matching", "weight_matching", {})),
        Entry(Method("activation matching", "activation_matching", {}, "some")),
        Entry(Method("deep align", "deep_align", {}), [aligner]),
        Entry(Method("deep align + Sinkhorn", "deep_align+sinkhorn", iterations, "some"), [aligner]),
    ]


def _cells(measured: Measured) -> list[str]:
    """At λ = 1 (the first network), half way and at λ = 0: losses, then accuracies."""
    losses, right = (torch.tensor(measured[key][0]) for key in ("loss", "accuracy"))
    places = (-1, losses.shape[1] // 2, 0)
    return [
        *(mean_with_error(losses[:, place]) for place in places),
        *(f"{float(right[:, place].mean()):.1%}" for place in places),
    ]
