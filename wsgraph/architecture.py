"""When are two modules the same architecture? A key of everything that is not a tensor's value."""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .inputs import ExampleInput
from .shell import HOOKS, own_hooks, parts_of
from .wrappers import is_wrapper

_PLAIN = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, torch.Size, type, enum.Enum)
_SKIPPED = {"_parameters", "_buffers", "_modules", "training", *HOOKS}
_RECURRENT = {"_flat_weights", "_flat_weight_refs"}
"""Of ``nn.LSTM`` and its kin: their parameters once more, which forward collects anew whenever they were replaced."""
_MAX_DEPTH = 12


class _OpaqueError(Exception):
    """An attribute whose value cannot be compared: the module is not cached."""


def architecture_key(module: nn.Module, example_input: ExampleInput | None) -> Hashable | None:
    """Key that is equal for two modules exactly when a trace of one serves the other; ``None`` if that cannot be told.

    It holds classes, all non-tensor attributes (two attention layers with 2 and 4 heads have equal shapes), shapes and
    dtypes of tensors, which tensors are tied, and the shapes of the example input.
    """
    registered, reached = {id(sub): name for name, sub in module.named_modules()}, parts_of(module)
    try:
        tied: dict[int, str] = {}
        parts: list[Hashable] = []
        for name, sub in module.named_modules(remove_duplicate=False):
            parts.append((name, type(sub), registered[id(sub)]))
            if name != registered[id(sub)]:
                continue  # a shared module, described under its first name
            skipped = _SKIPPED | _RECURRENT if isinstance(sub, nn.RNNBase) else _SKIPPED
            attributes = {} if is_wrapper(sub) else {k: v for k, v in vars(sub).items() if k not in skipped}
            hooks = list(own_hooks(vars(sub), reached).values())
            parts.append((_freeze(attributes, registered), _freeze(hooks, registered)))
            for key, tensor in [*sub._parameters.items(), *sub._buffers.items()]:
                first = tied.setdefault(id(tensor), f"{name}.{key}")
                parts.append((key, tensor is not None and (_freeze(tensor, registered), first)))
        return (tuple(parts), _freeze(example_input, registered))
    except _OpaqueError:
        return None


def _freeze(value: Any, registered: Mapping[int, str], depth: int = 0) -> Hashable:
    """A hashable stand-in for ``value``, equal for values that make forward do the same."""

    def inside(part: Any) -> Hashable:
        return _freeze(part, registered, depth + 1)

    if depth > _MAX_DEPTH:
        raise _OpaqueError
    if isinstance(value, _PLAIN):
        return (type(value), value)
    if isinstance(value, Tensor):
        return ("tensor", tuple(value.shape), value.dtype, value.device.type)
    if isinstance(value, nn.Module) and id(value) in registered:
        return ("module", registered[id(value)])  # visited by name
    if isinstance(value, Mapping):
        return (type(value), tuple((inside(k), inside(v)) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(inside(v) for v in value))
    if isinstance(value, (set, frozenset)):
        return (type(value), frozenset(inside(v) for v in value))
    if isinstance(value, functools.partial):
        return ("partial", inside((value.func, value.args, value.keywords)))
    if isinstance(value, types.MethodType):
        return ("method", inside(value.__func__), inside(value.__self__))
    if isinstance(value, types.FunctionType):
        return ("function", value.__module__, value.__code__, inside(_captured(value)))
    if isinstance(value, (types.BuiltinFunctionType, types.ModuleType)):
        return value
    if hasattr(value, "__dict__"):
        return (type(value), inside(vars(value)))
    raise _OpaqueError


def _captured(function: types.FunctionType) -> tuple[Any, ...]:
    """What a function remembers besides its code: closure and defaults."""
    try:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError as error:  # a variable that is not assigned yet
        raise _OpaqueError from error
    return (cells, function.__defaults__, function.__kwdefaults__)
