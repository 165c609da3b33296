"""The examples in docstrings of both packages show what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = [path for package in ("wsgraph", "align") for path in sorted((ROOT / package).rglob("*.py"))]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in FILES
    if ">>> " in path.read_text(encoding="utf-8")
]


def test_examples_are_found() -> None:
    assert {"wsgraph.tracing", "wsgraph.graph"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0, f"{found.failed} of {found.attempted} lines differ; the output above shows which"
