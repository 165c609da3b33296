"""Run a network of ours as it is used, and leave it in the modes of the caller's it was made from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(*models: nn.Module) -> Iterator[None]:
    """Eval mode inside; after it every submodule is back in its own mode (a frozen norm in a training network too).

    Not for a module of the caller, who may be running it in another thread: take a :func:`~wsgraph.shell.shell`.
    """
    modes = [(module, module.training) for model in models for module in model.modules()]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
