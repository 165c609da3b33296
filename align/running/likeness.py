"""Networks that can be averaged: weights of the same shapes, which the same function makes use of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from wsgraph.architecture import architecture_key
from wsgraph.inputs import infer_example_input
from wsgraph.modules import tensors_of, with_tensors
from wsgraph.verify import call, error
from wsgraph.weights import require_module, require_weights

from .batches import Samples, for_model, is_pair

FEW = 2
"""Inputs that tell two functions apart."""


def require_alike(networks: Sequence[nn.Module], data: Samples = None) -> None:
    """Raise unless all networks are of one architecture, activations included, naming the first difference.

    Args:
        networks: At least one.
        data: Inputs, or a pair (inputs, targets), to compare functions on; other data is left alone.
    """
    first, *others = networks
    for network in networks:
        require_module(network)
        require_weights(tensors_of(network))
    key = architecture_key(first, None)
    for other in others:
        require_same_tensors(tensors_of(first), tensors_of(other))
        if key is None or key != architecture_key(other, None):
            _require_same_function(first, other, data)


def require_same_tensors(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> None:
    """Raise unless two state dicts have entries of the same names and shapes, and equal integers."""
    for name in dict.fromkeys([*a, *b]):
        x, y = (tuple(t[name].shape) if name in t else "missing" for t in (a, b))
        if x != y:
            raise ValueError(f"the networks have different architectures: '{name}' is {x} in one and {y} in another")
        # A single integer counts something, batches say, and is nothing that outputs depend on.
        if a[name].dim() and not a[name].is_floating_point() and not torch.equal(a[name], b[name].to(a[name].device)):
            raise TypeError(
                f"'{name}' is of type {a[name].dtype} and differs between the networks, so there is nothing half way "
                "between them: pass weights as .float(), and networks with the same masks and indices"
            )


def _require_same_function(first: nn.Module, other: nn.Module, data: Samples) -> None:
    """With the same weights, both must give the same outputs; what cannot be run must be made of the same parts."""
    parts = _differing_parts(first, other)
    try:
        x = _inputs(first, data)
        differs = error(call(first, (x,), {}), call(with_tensors(other, tensors_of(first)), (x,), {})) is not None
    except Exception:  # no input is known, or not the right one
        differs = parts is not None
    if differs:
        raise ValueError(
            "the networks have equal shapes but compute different functions of their weights, so there is nothing half "
            f"way between them: {parts or 'their forward, or settings of it, differ'}"
        )


def _inputs(model: nn.Module, data: Samples) -> Tensor:
    given = data[0] if is_pair(data) else data
    return for_model(given[:FEW], model) if isinstance(given, Tensor) else infer_example_input(model)


def _differing_parts(first: nn.Module, other: nn.Module) -> str | None:
    """The first part that is another in the second network, in words."""
    mine, theirs = ({name: _shown(part) for name, part in m.named_modules()} for m in (first, other))
    for name in dict.fromkeys([*mine, *theirs]):
        x, y = mine.get(name, "missing"), theirs.get(name, "missing")
        if x != y:
            return f"'{name}' is {x} in the first and {y} in another" if name else f"they are {x} and {y}"
    return None


def _shown(part: nn.Module) -> str:
    return f"{type(part).__name__}({part.extra_repr()})"
