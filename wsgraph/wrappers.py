"""Modules that only say how another one is run: on several devices, or compiled. What they wrap is the network."""

from __future__ import annotations

import functools
from typing import Any

from torch import nn

_WRAPPERS = {
    "torch.nn.parallel.data_parallel.DataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "torch._dynamo.eval_frame.OptimizedModule",  # of torch.compile; by name, because its module takes long to import
}


class Unwrapped(nn.Module):
    """What a wrapper computes, by plain calls of the module it wraps, which has the same name here as there.

    So the state dicts of both have the same keys. It stands for the wrapper in shells and results: a copy of the
    wrapper itself would compile anew, or wait for other processes.
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the wrapped module returns."""
        (inner,) = self.children()
        return inner(*args, **kwargs)


def is_wrapper(module: nn.Module) -> bool:
    """Whether a module is DataParallel, DistributedDataParallel or what torch.compile makes."""
    return _wraps(type(module))  # type: ignore[arg-type]  # a class is hashable


@functools.cache
def _wraps(kind: type) -> bool:
    return any(f"{base.__module__}.{base.__qualname__}" in _WRAPPERS for base in kind.__mro__)


def wrapped_like(module: nn.Module, other: nn.Module) -> nn.Module:
    """The network that ``module`` is or wraps, under the names it would have in the wrappers of ``other``."""
    around, mine = _names(other), _names(module)
    if around == mine:
        return module
    for name in mine:
        module = getattr(module, name)
    for name in reversed(around):
        inner, module = module, Unwrapped()
        module.add_module(name, inner)
        module.training = inner.training
    return module


def _names(module: nn.Module) -> list[str]:
    """What each of the wrappers around a network calls the next, from the outside in."""
    found: list[str] = []
    while is_wrapper(module) or isinstance(module, Unwrapped):
        ((name, module),) = module.named_children()
        found.append(name)
    return found


def state_of(wrapper: nn.Module) -> dict[str, Any]:
    """The attributes of an :class:`Unwrapped` in place of the wrapper."""
    return {**vars(nn.Module()), "training": wrapper.training, "_modules": wrapper._modules}
