import sys
import threading
import types

import pytest
import torch
from networks import Net
from torch import nn

from wsgraph import trace
from wsgraph.architecture import architecture_key

SETTING = 1
TABLE = {"power": 1}
THING = None
SENTINEL = object()


def helper(x):
    return deeper(x)


def deeper(x):
    return x * SETTING


class Options:
    power = 1

    def act(self, x):
        return x**self.power


class Base(nn.Module):
    mode = "plain"

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 2)
        self.options = Options()

    def forward(self, x):
        return self.middle(self.a(x))

    def middle(self, x):
        return self.b(helper(x) ** TABLE["power"] + THING.act(x)) if THING is not SENTINEL else x

    def unused(self):
        return UNUSED  # noqa: F821


class Derived(Base):
    def forward(self, x):
        return super().forward(torch.relu(x)) * self.scale

    @property
    def scale(self):
        return 1.0


THING = Options()
HERE = sys.modules[__name__]
CHANGES = {
    "a class attribute": (Derived, "mode", "other"),
    "a class attribute of a base": (Base, "mode", "other"),
    "forward": (Derived, "forward", lambda self, x: self.b(self.a(x))),
    "forward of a base": (Base, "forward", lambda self, x: self.b(self.a(x))),
    "a method that forward calls": (Base, "middle", lambda self, x: self.b(x)),
    "a property": (Derived, "scale", property(lambda self: 2.0)),
    "a function": (HERE, "helper", lambda x: x + 1),
    "a function of a function": (HERE, "deeper", lambda x: x + 1),
    "a global": (HERE, "SETTING", 2),
    "a global in a container": (HERE, "TABLE", {"power": 2}),
    "the class of a global": (Options, "power", 2),
    "the class of an attribute": (Options, "act", lambda self, x: x),
}


def key():
    found = architecture_key(Derived(), None)
    assert found is not None
    return found


@pytest.mark.parametrize("name", CHANGES)
def test_code_and_what_it_names_are_in_the_key(name, monkeypatch):
    before = key()
    assert before == key()
    monkeypatch.setattr(*CHANGES[name])
    assert key() != before
    monkeypatch.undo()
    assert key() == before


def test_what_forward_does_not_name_is_not(monkeypatch):
    before = key()
    monkeypatch.setattr(Base, "unused", lambda self: 1)
    monkeypatch.setattr(HERE, "unrelated", 1, raising=False)
    assert key() == before


def test_functions_of_modules_of_the_same_package(monkeypatch):
    package, inner = types.ModuleType("somewhere"), types.ModuleType("somewhere.inner")
    exec("def act(x): return x", vars(inner))
    exec("def forward(self, x): return inner.act(self.a(x))", vars(package) | {"inner": inner}, found := {})
    model = Net(found["forward"], a=nn.Linear(4, 2))
    found["forward"].__module__ = "somewhere"
    before = architecture_key(model, None)
    assert before is not None
    exec("def act(x): return -x", vars(inner))
    assert architecture_key(model, None) != before


def test_what_cannot_be_frozen_is_not_cached(monkeypatch):
    monkeypatch.setattr(HERE, "THING", threading.Lock())
    assert architecture_key(Derived(), None) is None


def test_functions_that_call_each_other_come_to_an_end(monkeypatch):
    monkeypatch.setattr(HERE, "deeper", lambda x: helper(x))
    key()


class Switched(nn.Module):
    ordered = False

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        h = torch.relu(self.a(x))
        return self.b(h.cumsum(1) if self.ordered else h)


def test_a_trace_does_not_outlive_what_it_was_made_of(monkeypatch):
    model, x = Switched(), torch.randn(3, 4)
    assert [group.name for group in trace(model, x).free] == ["a"]
    monkeypatch.setattr(Switched, "ordered", True)
    assert trace(model, x).free == ()
    monkeypatch.setattr(Switched, "forward", lambda self, x: self.b(torch.relu(self.a(x))))
    assert [group.name for group in trace(model, x).free] == ["a"]
