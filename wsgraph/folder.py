"""Where downloads, zoos and answers about this machine are kept; imports nothing heavy."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "WSGRAPH_DATA"
"""The environment variable that names the cache folder."""


def cache_folder() -> Path:
    """``$WSGRAPH_DATA``, or ``wsgraph`` in the user's cache folder; it need not exist yet."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "wsgraph"
