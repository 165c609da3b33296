"""What is found in a model of one's own: a page to paste into an issue."""

from __future__ import annotations

import platform
from typing import Any

import torch
from rich.console import Console
from torch import nn

from wsgraph import __version__, trace
from wsgraph.importing import imported

from .coverage import header, row


def describe(name: str) -> None:
    """Print versions, the model's row of the coverage table, and its groups with the reasons of those that are pinned.

    Args:
        name: ``package.module:factory`` of something that returns a model, or a model and an example input.
    """
    print_line = Console(width=400, soft_wrap=True, highlight=False, markup=False).print
    model, example = build(name)
    print_line(f"wsgraph {__version__}, torch {torch.__version__}, Python {platform.python_version()}\n")
    print_line(f"{header()}\n| {' | '.join([type(model).__name__, *row(lambda: (model, example))])} |\n")
    try:
        print_line(f"```text\n{trace(model, example)}\n```")
    except ValueError as error:
        print_line(f"```text\n{error}\n```")


def build(name: str) -> tuple[nn.Module, Any]:
    """A model and an example input, ``None`` where the factory returns the model alone."""
    try:
        factory = imported(name)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    if not callable(factory):
        raise SystemExit(f"there is no {name}; expected package.module:factory of a function that returns a model")
    made = factory()
    model, example = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(model, nn.Module):
        raise SystemExit(
            f"{name} returned {type(model).__name__}; expected an nn.Module, or one and an example input: a tensor, a "
            "tuple of positional arguments or a dict of keyword arguments"
        )
    return model, example
