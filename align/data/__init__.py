"""Data sets for training networks: loaded as tensors, fetched by ``python -m align.data fetch <name>``."""

from typing import TYPE_CHECKING

from wsgraph.lazy import attach

__all__ = ["NAMES", "DataSet", "FetchError", "cache_folder", "fetch", "load"]

if TYPE_CHECKING:
    from wsgraph.folder import cache_folder as cache_folder

    from .catalogue import NAMES as NAMES
    from .dataset import DataSet as DataSet
    from .dataset import load as load
    from .fetching import fetch as fetch
    from .sources import FetchError as FetchError
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "DataSet": ".dataset",
            "FetchError": ".sources",
            "NAMES": ".catalogue",
            "cache_folder": "wsgraph.folder",
            "fetch": ".fetching",
            "load": ".dataset",
        },
    )
