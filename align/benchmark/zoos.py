"""The networks that tables are about: number and quality of all zoos in the cache folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from wsgraph.folder import cache_folder

from ..zoo import Zoo
from ..zoo.index import INDEX
from ..zoo.summary import COLUMNS, cells
from .sheet import Sheet


def compare(words: Sequence[str]) -> None:
    """Print zoos whose folder's name contains one of the words; means over networks, ± their deviation."""
    place = cache_folder() / "zoos"
    folders = sorted(path.parent for path in place.glob(f"*/{INDEX}"))
    chosen = [folder for folder in folders if not words or any(word in folder.name for word in words)]
    if not chosen:
        sys.exit(f"none of {len(folders)} zoos in {place} has {' or '.join(words) or 'anything'} in its name")
    sheet = Sheet("zoos", "Zoos", (*COLUMNS, "epochs", "batch", "learning rate"))
    for zoo in map(Zoo, chosen):
        recipe = zoo.config.recipe
        sheet.add(*cells(zoo), str(recipe.epochs), str(recipe.batch), f"{recipe.lr:g}")
    sheet.close()
