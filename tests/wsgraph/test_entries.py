"""Entries of a state dict from elsewhere: their names, and what must fit."""

import pytest
import torch
from networks import Net, mlp
from torch import nn

from wsgraph.entries import entry_names, with_entries
from wsgraph.modules import tensors_of

STATE = mlp(4, 6, 3).state_dict()


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "_orig_mod.module."])
def test_wrappers_are_seen_through(prefix):
    given = {prefix + name: t.double() for name, t in {**STATE, "more": torch.ones(1)}.items()}
    assert entry_names(mlp(4, 6, 3), given) == {prefix + name: name for name in [*STATE, "more"]}
    made = with_entries(mlp(4, 6, 3), given, "it")
    torch.testing.assert_close(dict(made.state_dict()), dict(STATE))


def test_names_that_are_the_modules_own():
    model = Net(lambda self, x: self.module(x), module=mlp(4, 6, 3))
    assert entry_names(model, model.state_dict()) == {name: name for name in model.state_dict()}
    assert entry_names(model, []) == {}


def test_a_base_model_that_is_left_out():
    model = Net(lambda self, x: self.head(self.base(x)), base=mlp(4, 6, 3), head=nn.Linear(3, 2))
    model.base_model_prefix = "base"
    state = {name.removeprefix("base."): t for name, t in model.state_dict().items()}
    assert entry_names(model, state)["0.weight"] == "base.0.weight"
    assert entry_names(model, state)["head.bias"] == "head.bias"
    assert torch.equal(with_entries(model, state, "it").base[0].weight, model.base[0].weight)
    whole = tensors_of(model)
    assert entry_names(model, whole) == {name: name for name in whole}


def test_tied_entries_must_agree():
    model = Net(lambda self, x: self.b(self.a(x)), a=nn.Linear(3, 3), b=nn.Linear(3, 3))
    model.b.weight = model.a.weight
    state = dict(model.state_dict())
    assert with_entries(model, state, "it").b.weight is not None
    with pytest.raises(
        ValueError, match=r"'a.weight' and 'b.weight' are one tensor in it and differ in the checkpoint"
    ):
        with_entries(model, {**state, "b.weight": torch.zeros(3, 3)}, "it")
