"""Scores, predictions and truth for networks against permuted and noisy copies of themselves."""

from __future__ import annotations

from ...learning.report import predictions
from ...plots import plot_permutations
from ..tables import both
from .notebook import Notebook, file_name
from .subjects import subjects


def planted(book: Notebook) -> None:
    """A picture per family, and the share of neurons that are matched rightly."""
    settings, rows = book.settings, []
    for title, family in settings.families.items():
        known = subjects(book.folder, title, family, 1)
        shown = predictions(known.aligners[0], known.zoos[0], settings.slow)
        plot_permutations(shown, book.folder / f"{file_name(title)}.png", f"{settings.title}: {title}")
        right = [float((found == truth).float().mean()) for _, found, truth in shown.values()]
        kept = book.keep(title, list, right)
        rows.append([title, str(len(kept)), f"{sum(kept) / len(kept):.1%}"])
    book.close(both(["networks", "pairs", "neurons of the first layer matched rightly"], rows))
