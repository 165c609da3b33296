"""What a training is worth: aligners trained with other losses, or on fewer networks."""

from __future__ import annotations

from collections.abc import Sequence

from ...deep_align import DeepAlign
from ...judging.compare import Method, mean_with_error
from ...learning.stages import first_aligner, train_config
from ...plots import plot_curves
from ..tables import both
from .measuring import Entry, Measured, measure, of_pairs
from .notebook import Notebook, file_name
from .reported import LOSSES
from .settings import Settings, training
from .subjects import Pair, fewer, networks, pairs_of, subjects, trained


def by_loss(book: Notebook) -> None:
    """Aligners trained with each variant of the losses, on each family: a table beside the paper's."""
    settings, rows = book.settings, []
    for variant, words in (settings.variants or {}).items():
        row = [variant]
        for title, family in settings.families.items():
            known = subjects(book.folder, title, family, settings.seeds, words)
            pairs = pairs_of(known.zoos, settings.pairs)
            found = book.keep(f"{title}: {variant}", _learned, known.aligners, pairs, settings)
            paper = LOSSES.get(family.reported or "", {}).get(variant)
            row += [_cell(found), "–" if paper is None else f"{paper:g}"]
        rows.append(row)
    columns = ["losses", *(cell for title in settings.families for cell in (f"{title}: barrier", "paper"))]
    book.close(both(columns, rows))


def by_count(book: Notebook) -> None:
    """Aligners trained on more and more networks, judged on the same others: a table and a picture."""
    settings, rows = book.settings, []
    curves: dict[str, tuple[list[int], list[float]]] = {}
    for title, family in settings.families.items():
        zoos = networks(family)
        pairs = pairs_of(zoos, settings.pairs)
        curves[title] = ([], [])
        for count in settings.counts:
            aligners = []
            for seed in range(settings.seeds):
                config = training(family, seed)
                folder = book.folder / "aligners" / file_name(f"{title} {count} seed {seed}")
                chosen = [fewer(zoo, count) for zoo in zoos]
                aligners.append(trained(chosen, first_aligner(config), train_config(config), folder))
            found = book.keep(f"{title}: {count}", _learned, aligners, pairs, settings)
            rows.append([title, str(count), _cell(found)])
            curves[title][0].append(count)
            curves[title][1].append(float(of_pairs(found).mean()))
    plot_curves(curves, book.folder / "samples.png", "training networks", "barrier", settings.title)
    book.close(both(["networks", "training networks", "barrier"], rows))


def _learned(aligners: Sequence[DeepAlign], pairs: Sequence[Pair], settings: Settings) -> Measured:
    return measure(Entry(Method("deep align", "deep_align", {}), aligners), pairs, settings)


def _cell(found: Measured) -> str:
    each = of_pairs(found)
    return mean_with_error(each)
