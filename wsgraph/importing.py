"""What a user names on a command line as ``package.module:name``."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any


def imported(name: str) -> Any:
    """What ``package.module:name`` names, ``None`` if the module has no such thing; for names that the user wrote.

    Modules in the current folder are found, too. A file's word is no reason to import anything.
    """
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that no file of the user's hides an installed package
    try:
        return getattr(importlib.import_module(module), attribute, None)
    except ImportError as error:
        raise ValueError(
            f"{name!r}: cannot import {module!r} ({error}); is it installed, or in this folder?"
        ) from error
