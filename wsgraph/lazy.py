"""Packages whose names are imported when somebody asks for them (PEP 562).

``import wsgraph`` would otherwise load all that any of its names needs: torch, PyG, scipy. A package that is *attached*
lists its names and where they live; the first use of a name imports its module, later uses find it in the package::

    if TYPE_CHECKING:  # type checkers and editors read this, and nobody runs it
        from .spec import Spec as Spec
    else:
        __getattr__, __dir__ = attach(__name__, {"Spec": ".spec"})

The name of a module stands for the module itself: nothing else in a package may be called like one of its modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attach(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: Its ``__name__``.
        names: Name → module that defines it, relative to the package (``".spec"``); a module's own name (``"augment"``
            → ``".augment"``) gives the module.
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        module = import_module(names[name], package)
        value = module if module.__name__ == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names})

    return find, listed
