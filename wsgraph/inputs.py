"""What a network is called with: given as an example, or guessed from its first layers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from .modules import tensors_of
from .shell import rebuilt

_SIZES = (32, 28, 224, 64, 96, 16, 8, 48, 128, 256, 299)
_CONVS = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}
_BATCH = 2

ExampleInput: TypeAlias = Tensor | tuple[Any, ...] | list[Any] | Mapping[str, Any]
"""A tensor, positional arguments (a tuple or list) or keyword arguments (a dict) of a forward."""


def as_call(example_input: ExampleInput) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of the forward call that ``example_input`` stands for.

    >>> as_call({"tokens": 1, "mask": 2})
    ((), {'tokens': 1, 'mask': 2})
    """
    if isinstance(example_input, Mapping):
        return (), dict(example_input)
    return (tuple(example_input) if isinstance(example_input, (tuple, list)) else (example_input,)), {}


def only_tensor(model: nn.Module, example_input: ExampleInput | None) -> Any:
    """The argument itself, where a call has but one and forward takes it first: ``(x,)`` and ``{"x": x}`` mean x."""
    args, kwargs = as_call(() if example_input is None else example_input)
    if len(args) + len(kwargs) != 1:
        return example_input
    value = (*args, *kwargs.values())[0]
    if not isinstance(value, Tensor) or (kwargs and _first_argument(model) not in kwargs):
        return example_input
    return value


def _first_argument(model: nn.Module) -> str | None:
    """Its name, if it may be passed by place, too."""
    first = next(iter(inspect.signature(model.forward).parameters.values()), None)
    return first.name if first is not None and first.kind is first.POSITIONAL_OR_KEYWORD else None


def usual_input(model: nn.Module) -> ExampleInput:
    """The tokens that a model of ``transformers`` names for such trials, else what can be inferred."""
    named = getattr(model, "dummy_inputs", None)
    if isinstance(named, Mapping) and getattr(model, "main_input_name", None) in named:
        return named
    return infer_example_input(model)


def infer_example_input(model: nn.Module) -> Tensor:
    """The first of some likely inputs that ``model`` accepts, on its device and in its dtype.

    A first Linear tells the number of features, a first Conv the channels; the spatial size is found by trying which
    one the rest of the network (usually the first Linear after Flatten) accepts. Trials run on the meta device.
    """
    tensor = next((t for t in tensors_of(model).values() if t.is_floating_point()), torch.empty(0))
    with torch.no_grad():
        state = {id(t): _on_meta(t) for t in [*model.parameters(), *model.buffers()]}
        trial = rebuilt(model, state).eval()
        for shape in _candidates(model):
            try:
                trial(torch.empty(_BATCH, *shape, dtype=tensor.dtype, device="meta"))
            except Exception:  # whatever forward raises, this shape is not it
                continue
            generator = torch.Generator().manual_seed(0)
            return torch.randn(_BATCH, *shape, generator=generator).to(tensor.device, tensor.dtype)
    raise ValueError(
        f"cannot infer an example input for {type(model).__name__}; pass one, batch dimension first: "
        "to_graph(model, example_input=torch.randn(2, 3, 32, 32))"
    )


def _on_meta(tensor: Tensor) -> Tensor:
    new = torch.empty_like(tensor, device="meta")
    return nn.Parameter(new, requires_grad=False) if isinstance(tensor, nn.Parameter) else new


def _candidates(model: nn.Module) -> Iterator[tuple[int, ...]]:
    first = next((m for m in model.modules() if isinstance(m, (nn.Linear, *_CONVS))), None)
    if isinstance(first, nn.Linear):
        n = first.in_features
        for channels in (1, 3):  # a flattened image keeps its coordinates
            side = math.isqrt(n // channels)
            if channels * side * side == n and side > 1:
                yield (channels, side, side)
        yield (n,)
    elif first is not None:
        width: Any = first.in_channels
        dims = next(d for kind, d in _CONVS.items() if isinstance(first, kind))
        for side in (*_SIZES, *range(1, 300)):
            yield (width, *(side,) * dims)
