"""Silence in one thread: all warnings, and torch's log; nothing of other threads."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _ThisThread:
    """Matches, while active, whatever the thread that made it says: as a filter of logs and as one of warnings."""

    def __init__(self) -> None:
        self.thread, self.active = threading.get_ident(), True

    def match(self, _text: str) -> bool:
        """Where ``warnings.filters`` has a regular expression for the message."""
        return self.active and threading.get_ident() == self.thread

    def filter(self, _record: logging.LogRecord) -> bool:
        """Whether a record, which is made by the thread that logs, is kept."""
        return not self.match("")


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, the user of this thread gets no warnings, and no notices of torch about its internals.

    ``warnings.catch_warnings`` and ``logging.disable`` would hold for the whole process.
    """
    here = _ThisThread()
    entry: Any = ("ignore", here, Warning, None, 0)
    names = [name for name in list(logging.root.manager.loggerDict) if name.split(".")[0] == "torch"]
    loggers = [logging.getLogger(name) for name in names]
    warnings.filters.insert(0, entry)  # type: ignore[attr-defined]
    for logger in loggers:
        logger.addFilter(here)
    try:
        yield
    finally:
        here.active = False  # another thread may have put its own list of filters, with a copy of this one, in place
        if entry in warnings.filters:
            warnings.filters.remove(entry)  # type: ignore[attr-defined]
        for logger in loggers:
            logger.removeFilter(here)
