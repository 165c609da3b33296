"""Whether a network takes the data that it is given: asked once, before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from wsgraph.inputs import infer_example_input
from wsgraph.randomness import OwnDraws
from wsgraph.shell import shell

from .batches import Samples, for_model, is_pair, require_paired
from .inputs import first, run

FEW = 2
"""Samples that tell; one alone is refused by some norms."""


def require_fitting(model: Any, data: Samples) -> None:
    """Raise if the network does not take tensors at hand; loaders are left alone, for reading them may cost.

    Args:
        model: A module; what is none is not run.
        data: As in :func:`align.match`.
    """
    if isinstance(data, Mapping):
        return  # forward's own words for what is missing are better
    if is_pair(data):
        require_paired(data)  # as they were passed: later they come in halves
    inputs = data[0] if is_pair(data) else data
    if not isinstance(model, nn.Module) or not isinstance(inputs, Tensor) or not inputs.numel():
        return
    try:
        with OwnDraws(), torch.no_grad():
            run(shell(model).eval(), for_model(first(inputs, FEW), model))
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise ValueError(_misfit(model, inputs, error)) from error


def at_hand(model: Any, data: Samples) -> Tensor | None:
    """Some inputs from data, for a module whose own cannot be inferred, as those of embeddings."""
    inputs = data[0] if is_pair(data) else data
    if not isinstance(model, nn.Module) or not isinstance(inputs, Tensor):
        return None
    try:
        infer_example_input(model)
    except ValueError:
        return for_model(first(inputs, FEW), model)
    return None


def _misfit(model: nn.Module, inputs: Tensor, error: Exception) -> str:
    layers = [f"; its first layer is {part}" for part in model.modules() if _reads(part)]
    said = (str(error) or type(error).__name__).splitlines()[0]
    return (
        f"the network does not take the inputs in data=, of shape {list(inputs.shape)} and type {inputs.dtype}"
        f"{''.join(layers[:1])}. Pass them as its forward expects them, samples first. It says: {said}"
    )


def _reads(part: nn.Module) -> bool:
    return any(p.dim() > 1 for p in part.parameters(recurse=False))
