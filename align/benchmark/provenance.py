"""What made a number: the command, the commit, the versions."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("wsgraph", "torch", "torch_geometric", "numpy", "scipy")


def provenance() -> dict[str, str]:
    """``command``, ``commit`` and ``versions`` of the process that asks.

    To be asked for at the start: a commit that is made while it runs is not what it runs.
    """
    found = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return {
        "command": " ".join(["python -m align.benchmark", *sys.argv[1:]]),
        "commit": found.stdout.strip() or "unknown",
        "versions": f"Python {platform.python_version()}, {versions}",
    }


def in_words(made: Mapping[str, str]) -> str:
    """The same as a line above a table."""
    return f"`{made['command']}`, commit {made['commit']}, {made['versions']}"
