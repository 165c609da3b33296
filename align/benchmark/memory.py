"""Peak memory of a piece of code, from the kernel's own high-water mark (Linux)."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

M_MMAP_THRESHOLD = -3
"""Of mallopt(3): the size from which every block is mapped by itself."""


@dataclass
class Peak:
    """Bytes above what was in use at the start."""

    bytes: int = 0


def return_freed_memory() -> None:
    """From now on freed tensors go back to the system at once.

    Otherwise malloc keeps blocks below 32 MiB for later, and what earlier work left behind counts as in use again as
    soon as a part of it is.
    """
    ctypes.CDLL("libc.so.6").mallopt(M_MMAP_THRESHOLD, 2**20)


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure the code inside ``with peak_memory() as peak: ...``; ``peak.bytes`` is set at the end."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # hand freed memory back, or the code inside would reuse it unseen
    Path("/proc/self/clear_refs").write_text("5")  # reset the high-water mark
    before = _status("VmRSS")
    peak = Peak()
    yield peak
    peak.bytes = max(0, _status("VmHWM") - before)


def anonymous(process: int) -> int:
    """Bytes that a process has in use beside the files that are mapped into its memory."""
    return _status("RssAnon", str(process))


def _status(key: str, process: str = "self") -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/{process}/status has no {key}")
