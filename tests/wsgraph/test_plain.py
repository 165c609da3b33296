"""Plain data becomes dataclasses, or an error that names the value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from wsgraph.plain import arguments, build, parse


@dataclass(frozen=True)
class Inner:
    size: int
    rate: float = 0.5


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner = field(default_factory=lambda: Inner(1))
    shape: tuple[int, int] | None = None
    flag: bool = False
    args: Mapping[str, Any] = field(default_factory=dict)
    kind: type[ValueError] | None = None


def test_mappings_become_dataclasses_and_lists_tuples():
    data = {"name": "x", "inner": {"size": 3, "rate": 2}, "shape": [1, 2], "flag": True, "args": {"a": [1]}}
    assert build(Outer, data) == Outer("x", Inner(3, 2), (1, 2), True, {"a": [1]})
    assert build(Outer, {"name": "x", "inner": Inner(5), "kind": UnicodeError}).inner == Inner(5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, "it.name is 3, expected a text$"),
        ({"inner": {"size": True}}, "it.inner.size is True, expected a whole number$"),
        ({"inner": {"size": 1.0}}, "it.inner.size is 1.0, expected a whole number$"),
        ({"inner": {"size": 1, "rate": "fast"}}, "it.inner.rate is 'fast', expected a number$"),
        ({"inner": {}}, "it.inner.size is missing$"),
        ({"inner": [1]}, r"it.inner is \[1\], expected a mapping with size, rate$"),
        ({"shape": [1, "2"]}, r"it.shape is \[1, '2'\], expected a list of 2: a whole number, a whole number or null$"),
        ({"flag": 1}, "it.flag is 1, expected true or false$"),
        ({"args": 3}, "it.args is 3, expected a mapping$"),
        ({"kind": "os:system"}, "it.kind is 'os:system', expected "),
        ({"nam": 3}, r"it.nam is not known; did you mean name\?$"),
        ({7: 3}, "it.7 is not known, expected one of name, inner, shape"),
        ({"name": 10**100}, r"it.name is 10{59}…, expected a text"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        build(Outer, {"name": "x", **change}, "it")


def test_what_a_program_wrote_leaves_nothing_out():
    with pytest.raises(ValueError, match=r"^inner is missing$"):
        build(Outer, {"name": "x"}, whole=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"it is not JSON \(Expecting property name"),
        (b"\xff", r"it is not JSON \('utf-8' codec can't decode"),
        ("9" * 5_000, r"it is not JSON \(Exceeds the limit"),
        ("[" * 200_000, "it is not JSON that can be read: it is nested too deep"),
    ],
)
def test_texts_that_are_no_json(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text, "it")


def test_arguments_of_a_function():
    def function(network: str, steps: int, rate: float = 1.0) -> None: ...

    assert arguments(function, {"steps": 3}) == {"steps": 3}
    with pytest.raises(ValueError, match=r"^its.steps is 'abc', expected a whole number$"):
        arguments(function, {"steps": "abc"}, "its")
