"""Memory that is freed at every step and needed again at the next."""

from __future__ import annotations

import ctypes

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Options of glibc's ``mallopt``."""


def keep_freed_memory() -> bool:
    """Tell this process to keep freed memory for itself instead of giving it back; does nothing without glibc.

    Activations of many networks are megabytes that come and go at every step. Asking the system for them again costs up
    to a quarter of the time (``python -m align.benchmark zoo``). The results are the same.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(mallopt(MMAP_THRESHOLD, 32 << 20) and mallopt(TRIM_THRESHOLD, 1 << 30))  # 32 MiB is the largest allowed
