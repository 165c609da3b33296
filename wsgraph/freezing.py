"""Hashable stand-ins for whatever decides what forward does: settings, functions, classes and what their code names."""

from __future__ import annotations

import enum
import functools
import logging
import re
import sys
import types
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

_PLAIN = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, torch.Size, enum.Enum)
_BY_IDENTITY = (type, types.BuiltinFunctionType, types.ModuleType, logging.Logger, re.Pattern)
_DESCRIPTORS = (
    types.FunctionType,
    staticmethod,
    classmethod,
    property,
    functools.cached_property,
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
)
_LIBRARIES = {"torch", *sys.stdlib_module_names}
"""Packages whose classes are taken for what they are."""
_INSTALLED = ("site-packages", "dist-packages")
"""Folders of packages that nobody edits while a program runs: their globals hold locks and caches, not settings."""
_MAX_DEPTH = 12
ORIGIN = {"_name_or_path", "name_or_path", "_commit_hash"}
"""Attributes that say where a network came from, by the names that Hugging Face gives them."""


class OpaqueError(Exception):
    """A value that cannot be compared with another."""


class Freezer:
    """Turns values into stand-ins that are equal for values that make forward do the same.

    Args:
        registered: Modules of the network by id, and their names, which stand for them.
    """

    def __init__(self, registered: Mapping[int, str]) -> None:
        self.registered = registered
        self.seen: dict[Any, int] = {}  # functions and classes, which may name each other, by when they were met

    def __call__(self, value: Any, depth: int = 0) -> Hashable:
        """The stand-in of a value; raise if there is none."""

        def inside(part: Any) -> Hashable:
            return self(part, depth + 1)

        if depth > _MAX_DEPTH:
            raise OpaqueError
        if isinstance(value, _PLAIN):
            return (type(value), value)
        if isinstance(value, _BY_IDENTITY) or type(value) is object:
            return value
        if isinstance(value, Tensor):
            return ("tensor", tuple(value.shape), value.dtype, value.device.type)
        if isinstance(value, nn.Module) and id(value) in self.registered:
            return ("module", self.registered[id(value)])  # visited by name
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
            return self._function(value)
        if hasattr(value, "__dict__"):
            return (self.kind(type(value)), inside({k: v for k, v in vars(value).items() if k not in ORIGIN}))
        raise OpaqueError

    def kind(self, cls: type) -> Hashable:
        """A class with its attributes, and the code of its methods as far as a call of an object runs it."""
        if cls in self.seen or _root(cls) in _LIBRARIES:
            return (cls, self.seen.get(cls))
        self.seen[cls] = len(self.seen)
        bases = [vars(base) for base in cls.__mro__ if _root(base) not in _LIBRARIES]
        attributes = [(k, v) for base in bases for k, v in base.items() if not _is_special(k) and _is_value(v)]
        starts = {"forward", "__call__"}
        if not issubclass(cls, nn.Module):  # whoever holds the object may call anything
            starts |= {name for base in bases for name in base if not _is_special(name)}
        return (cls, self(attributes), tuple(map(self._function, _reachable(bases, starts))))

    def _function(self, function: types.FunctionType) -> Hashable:
        """Its code, what it remembers and, of the same package, what it names."""
        if function in self.seen:
            return ("seen", self.seen[function])
        self.seen[function] = len(self.seen)
        named = tuple((name, self._global(value, function)) for name, value in _globals_of(function))
        return ("function", function.__module__, function.__code__, self(_captured(function)), named)

    def _global(self, value: Any, user: types.FunctionType) -> Hashable:
        """What a function finds under a global name."""
        if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] == _root(user):
            used = [(name, vars(value)[name]) for name in _names(user.__code__) if name in vars(value)]
            return tuple((name, self._global(part, user)) for name, part in used if part is not value)
        if isinstance(value, types.FunctionType) and _root(value) != _root(user):
            return value
        if isinstance(value, type):
            return self.kind(value) if _root(value) == _root(user) else value
        return self(value)


def _root(thing: Any) -> str:
    return (getattr(thing, "__module__", None) or "").partition(".")[0]


def _is_special(name: str) -> bool:
    return name.startswith("__") or name == "_abc_impl"


def _is_value(attribute: Any) -> bool:
    return not isinstance(attribute, _DESCRIPTORS)


def _reachable(bases: Iterable[Mapping[str, Any]], starts: Iterable[str]) -> Iterator[types.FunctionType]:
    """Methods by these names, and those whose names appear in their code, wherever a class defines them."""
    todo, done = sorted(starts), set(starts)
    while todo:
        name = todo.pop()
        for function in (_behind(base[name]) for base in bases if name in base):
            if function is not None:
                yield function
                new = [other for other in _names(function.__code__) if other not in done]
                todo += new
                done |= set(new)


def _behind(attribute: Any) -> types.FunctionType | None:
    """The function that a method, static method or property calls."""
    for part in ("__func__", "fget", "func"):
        attribute = getattr(attribute, part, None) or attribute
    return attribute if isinstance(attribute, types.FunctionType) else None


def _globals_of(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Global names of a function's code that have a value; none in installed packages."""
    if not any(folder in function.__code__.co_filename for folder in _INSTALLED):
        yield from ((n, function.__globals__[n]) for n in _names(function.__code__) if n in function.__globals__)


@functools.lru_cache(4096)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """Global names and attributes in a function's code and in the functions inside it."""
    inner = [name for part in code.co_consts if isinstance(part, types.CodeType) for name in _names(part)]
    return tuple(dict.fromkeys([*code.co_names, *inner]))


def _captured(function: types.FunctionType) -> tuple[Any, ...]:
    """What a function remembers besides its code: closure and defaults."""
    try:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError as error:  # a variable that is not assigned yet
        raise OpaqueError from error
    return (cells, function.__defaults__, function.__kwdefaults__)
