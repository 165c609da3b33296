"""When are two modules the same architecture? A key of everything that is not a tensor's value."""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

_PLAIN = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, torch.Size, type, enum.Enum)
_SKIPPED = {"_parameters", "_buffers", "_modules", "training"}
_MAX_DEPTH = 12


class _Opaque(Exception):
    """An attribute whose value cannot be compared: the module is not cached."""


def architecture_key(module: nn.Module, example_input: Any) -> Hashable | None:
    """Key that is equal for two modules exactly when a trace of one serves the other, or ``None`` if that cannot be told.

    It holds classes, all non-tensor attributes (two attention layers with 2 and 4 heads have equal shapes), shapes and
    dtypes of tensors, which tensors are tied, and the shapes of the example input.
    """
    try:
        names: dict[int, str] = {}
        parts: list[Hashable] = []
        for name, sub in module.named_modules(remove_duplicate=False):
            parts.append((name, type(sub), id(sub) in names and names[id(sub)]))
            if id(sub) in names:
                continue
            names[id(sub)] = name
            attributes = {k: v for k, v in vars(sub).items() if k not in _SKIPPED}
            parts.append(_freeze(attributes, 0))
            for key, tensor in [*sub._parameters.items(), *sub._buffers.items()]:
                parts.append((key, tensor is not None and (_freeze(tensor, 0), names.setdefault(id(tensor), f"{name}.{key}"))))
        return (tuple(parts), _freeze(example_input, 0))
    except _Opaque:
        return None


def _freeze(value: Any, depth: int) -> Hashable:
    if depth > _MAX_DEPTH:
        raise _Opaque
    if isinstance(value, _PLAIN):
        return (type(value), value)
    if isinstance(value, Tensor):
        return ("tensor", tuple(value.shape), value.dtype, value.device.type)
    if isinstance(value, nn.Module):
        return ("module", type(value))  # registered ones are visited by name
    if isinstance(value, Mapping):
        return (type(value), tuple((_freeze(k, depth + 1), _freeze(v, depth + 1)) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(_freeze(v, depth + 1) for v in value))
    if isinstance(value, (set, frozenset)):
        return (type(value), frozenset(_freeze(v, depth + 1) for v in value))
    if isinstance(value, functools.partial):
        return ("partial", _freeze((value.func, value.args, value.keywords), depth + 1))
    if isinstance(value, types.MethodType):
        return ("method", _freeze(value.__func__, depth + 1), type(value.__self__))
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return ("function", value.__module__, value.__code__, _freeze((cells, value.__defaults__, value.__kwdefaults__), depth + 1))
    if isinstance(value, types.BuiltinFunctionType):
        return value
    if hasattr(value, "__dict__"):
        return (type(value), _freeze(vars(value), depth + 1))
    raise _Opaque
