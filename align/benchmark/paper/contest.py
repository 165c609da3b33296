"""All methods on some families of networks, in one table beside the paper's: MLPs, CNNs, VGGs, diverse depths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...deep_align import DeepAlign
from ...judging.compare import Method, mean_with_error
from ...plots import plot_line_panels
from ..tables import both
from .measuring import TEMPERATURE, Entry, Measured, curve, measure, of_pairs, ratio, tempered
from .notebook import Notebook
from .reported import REPORTED
from .settings import Settings
from .subjects import Subjects, pairs_of, subjects

AGAINST, LEARNED = "activation matching", "deep align"
"""Ratios to activation matching carry over from one zoo to another; barriers do not."""
DRAWN = ("not aligned", "weight matching", AGAINST, "Sinkhorn", LEARNED, "deep align + Sinkhorn")
"""Whose lines the picture shows, as the paper's does."""


def contest(book: Notebook) -> None:
    """Measure, and write table and picture."""
    settings, measured = book.settings, dict[str, dict[str, Measured]]()
    for title, family in settings.families.items():
        known = subjects(book.folder, title, family, settings.seeds)
        pairs = pairs_of(known.zoos, settings.pairs)
        listed = entries(known, settings)
        kept = {
            entry.label: book.keep(f"{title}: {entry.label}", measure, entry, pairs, settings)
            for entry in sorted(listed, key=lambda entry: entry.slow)  # what takes long comes last
        }
        found = {entry.label: kept[entry.label] for entry in listed}
        if known.zoos[0].config.task == "classify":
            found[TEMPERATURE] = book.keep(f"{title}: {TEMPERATURE}", tempered, pairs, settings)
        measured[title] = found
    plot_line_panels(
        {
            title: {k: curve(found[k], _counts(found)[-1]) for k in DRAWN if k in found}
            for title, found in measured.items()
        },
        book.folder / "lines.png",
        settings.title,
    )
    book.close(table(measured, settings))


def entries(known: Subjects, settings: Settings) -> list[Entry]:
    """What is compared, slow methods if there are pairs for them; all that learn from data get the same samples."""
    from_start, from_nothing = {"iterations": settings.sinkhorn}, {"iterations": settings.scratch}
    found = [
        Entry(Method("not aligned", "identity", {})),
        Entry(Method("weight matching", "weight_matching", {})),
        Entry(Method("covariance matching", "covariance_matching", {})),
        Entry(Method("activation matching", "activation_matching", {}, "some")),
        Entry(Method("activation matching on noise", "activation_matching", {}, "noise")),
        Entry(Method("activation matching on pictures", "activation_matching", {}, "pictures")),
        Entry(Method("straight-through", "ste", {}, "some"), slow=True),
        Entry(Method("weight matching + Sinkhorn", "weight_matching+sinkhorn", from_start, "some"), slow=True),
        Entry(Method("activation matching + Sinkhorn", "activation_matching+sinkhorn", from_start, "some"), slow=True),
        Entry(Method(LEARNED, "deep_align", {}), known.aligners),
        Entry(Method("deep align + Sinkhorn", "deep_align+sinkhorn", from_start, "some"), known.aligners, slow=True),
        Entry(Method("bundled deep align", "deep_align", {}), [DeepAlign()]),
        Entry(Method("auto", "auto", {}, "some"), [DeepAlign()], slow=True),
    ]
    if settings.scratch:
        found.insert(7, Entry(Method("Sinkhorn", "sinkhorn", from_nothing, "some"), slow=True))
    return [entry for entry in found if settings.slow or not entry.slow]


def table(measured: Mapping[str, Mapping[str, Measured]], settings: Settings) -> dict[str, str]:
    """Barrier, area and ratio of every method and family, with the paper's numbers beside."""
    columns, last = ["method"], ["pairs"]
    for title, found in measured.items():
        counts = _counts(found)
        ratios = [f"× {AGAINST}", *(f"× on {count} pairs" if count > 1 else "× on one pair" for count in counts[1:])]
        own = [f"{title}: barrier", "AUC", *ratios, "paper: barrier", "AUC", f"× {AGAINST}"]
        columns += own
        last += [" or ".join(map(str, counts)), *[""] * (len(own) - 1)]
    labels = list(dict.fromkeys(label for found in measured.values() for label in found))
    rows = [
        [label, *(cell for title in measured for cell in _cells(label, measured[title], _paper(settings, title)))]
        for label in labels
    ]
    return both(columns, rows, [last])


def _counts(found: Mapping[str, Measured]) -> list[int]:
    """How many pairs methods were tried on, most first: slow ones may have had fewer.

    Each has a column of ratios: what stands in one column was measured on the same pairs.
    """
    return sorted({len(of_pairs(measured)) for measured in found.values()}, reverse=True)


def _paper(settings: Settings, title: str) -> Mapping[str, tuple[float, float | None]]:
    return REPORTED.get(settings.families[title].reported or "", {})


def _cells(label: str, found: Mapping[str, Measured], paper: Mapping[str, tuple[float, float | None]]) -> Sequence[str]:
    ours, theirs = ["–"] * (2 + len(_counts(found))), ["–"] * 3
    if label in found:
        each, area = of_pairs(found[label]), of_pairs(found[label], "auc")
        ratios = [_times(ratio(found[label], found[AGAINST], count)) for count in _counts(found)]
        ours = [
            mean_with_error(each),
            "–" if label == TEMPERATURE else f"{float(area.mean()):.3g}",  # three points have no area worth the name
            *ratios,
        ]
    if label in paper:
        barrier, auc = paper[label]
        below = paper[AGAINST][0] if AGAINST in paper else None
        theirs = [f"{barrier:g}", "–" if auc is None else f"{auc:g}", _times(barrier / below if below else None)]
    return [*ours, *theirs]


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
