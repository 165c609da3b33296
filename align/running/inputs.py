"""One batch of inputs: a tensor, or several by name, as tokenizers give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from torch import Tensor, nn

Inputs = Tensor | Mapping[str, Any]
"""What a network is called with: a tensor, or arguments by name, tensors among them with the samples first."""
X = TypeVar("X", bound=Inputs)


def each_tensor(function: Callable[[Tensor], Tensor], x: X) -> X:
    """The inputs with every tensor changed."""
    if isinstance(x, Tensor):
        return cast(X, function(x))
    return cast(X, {k: function(value) if isinstance(value, Tensor) else value for k, value in x.items()})


def count(x: Inputs) -> int:
    """Number of samples."""
    return len(x) if isinstance(x, Tensor) else next(len(value) for value in x.values() if isinstance(value, Tensor))


def first(x: X, samples: int) -> X:
    """The first few samples."""
    return each_tensor(lambda t: t[:samples], x)


def arguments(x: Inputs) -> tuple[tuple[Tensor, ...], dict[str, Any]]:
    """Positional and keyword arguments of the call."""
    return ((x,), {}) if isinstance(x, Tensor) else ((), dict(x))


def run(model: nn.Module, x: Inputs) -> Any:
    """Whatever the network returns."""
    args, kwargs = arguments(x)
    return model(*args, **kwargs)
