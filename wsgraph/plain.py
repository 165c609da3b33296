"""Plain data (JSON, YAML, a command line) as dataclasses: every name and every type is checked, nothing is guessed."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
SHOWN = 60
"""Characters of a wrong value that a message shows."""
NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", type(None): "null"}
"""Types in words of those who write settings."""


def parse(text: str | bytes, what: str) -> Any:
    """The value of a JSON text; whatever is wrong with it is a ``ValueError`` that begins with ``what``."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{what} is not JSON that can be read: it is nested too deep") from None
    except ValueError as error:  # no JSON, no UTF-8, or a number of thousands of digits
        raise ValueError(f"{what} is not JSON ({error})") from error


def build(cls: type[T], data: Any, what: str = "", whole: bool = False) -> T:
    """An instance of a dataclass from a mapping of its fields; lists become tuples, mappings dataclasses.

    Args:
        cls: The dataclass.
        data: Values by name.
        what: Name of the value in messages.
        whole: Refuse data that lacks a field even where that has a default: what a program wrote leaves nothing out.
    """
    known = {f.name: f for f in fields(cls) if f.init}  # type: ignore[arg-type]
    if not isinstance(data, Mapping):
        raise ValueError(f"{what or cls.__name__} is {_shown(data)}, expected a mapping with {', '.join(known)}")
    for name in data:
        if name not in known:
            raise ValueError(f"{_inside(what, name)} is not known{_near(name, known)}")
    for name, f in known.items():
        if name not in data and (whole or (f.default is MISSING and f.default_factory is MISSING)):
            raise ValueError(f"{_inside(what, name)} is missing")
    hints = get_type_hints(cls)
    return cls(**{name: value(hints[name], v, _inside(what, name), whole) for name, v in data.items()})


def arguments(function: Callable[..., Any], data: Mapping[str, Any], what: str = "") -> dict[str, Any]:
    """Arguments of a function, each of the type that its annotation says."""
    hints = get_type_hints(function)
    return {name: value(hints[name], data[name], _inside(what, name)) for name in data}


def value(kind: Any, given: Any, what: str, whole: bool = False) -> Any:
    """A value as a field of type ``kind`` holds it."""
    origin, args = get_origin(kind), get_args(kind)
    if is_dataclass(kind) and isinstance(kind, type):
        return given if isinstance(given, kind) else build(kind, given, what, whole)
    if origin in (Union, types.UnionType):
        for k in args:
            with suppress(ValueError):
                return value(k, given, what, whole)
    elif origin is tuple and isinstance(given, list | tuple):
        kinds = args[:1] * len(given) if args[-1] is ... else args
        if len(kinds) == len(given):
            return tuple(value(k, v, f"{what}[{i}]", whole) for i, (k, v) in enumerate(zip(kinds, given, strict=True)))
    elif _fits(kind, given):
        return given
    raise ValueError(f"{what} is {_shown(given)}, expected {_in_words(kind)}")


def _fits(kind: Any, given: Any) -> bool:
    """Whether a value is of a type that has no parts of its own."""
    if kind in (int, float) and isinstance(given, bool):
        return False
    if kind is float:
        return isinstance(given, int | float)
    if get_origin(kind) is type:
        return isinstance(given, type) and issubclass(given, get_args(kind)[0])
    return kind is Any or isinstance(given, get_origin(kind) or kind)


def _in_words(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(map(_in_words, args))
    if origin is tuple:
        return "a list" if args[-1] is ... else f"a list of {len(args)}: {', '.join(map(_in_words, args))}"
    return NAMES.get(kind, "a class" if origin is type else "a mapping")


def _inside(what: str, name: object) -> str:
    return f"{what}{'.' if what else ''}{name}"


def _near(name: object, known: Mapping[str, Any]) -> str:
    near = get_close_matches(str(name), known, 1)
    return f"; did you mean {near[0]}?" if near else f", expected one of {', '.join(known)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
