"""Data sets for training networks: loaded as tensors, fetched by ``python -m align.data fetch <name>``."""

from wsgraph.folder import cache_folder

from .catalogue import CATALOGUE
from .dataset import DataSet, load
from .fetching import fetch
from .sources import FetchError

NAMES = tuple(CATALOGUE)
"""The data sets there are."""

__all__ = ["NAMES", "DataSet", "FetchError", "cache_folder", "fetch", "load"]
