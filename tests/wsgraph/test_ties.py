import torch

from wsgraph.ties import map_tied, replace_tied, untied

A, B = torch.zeros(2), torch.ones(3)
TENSORS = {"a": A, "b": B, "again": A}


def test_every_tensor_once_under_its_first_name():
    assert list(untied(TENSORS)) == ["a", "b"]
    assert untied(TENSORS)["a"] is A


def test_tied_tensors_are_changed_once_and_stay_tied():
    seen = []
    new = map_tied(TENSORS, lambda name, t: seen.append(name) or t + 1)
    assert seen == ["a", "b"]
    assert list(new) == list(TENSORS)
    assert new["again"] is new["a"]
    assert torch.equal(new["b"], B + 1)


def test_entries_of_different_kinds_are_treated_apart():
    new = map_tied(TENSORS, lambda name, t: t.clone(), kind=lambda name: name == "again")
    assert new["again"] is not new["a"]


def test_a_replaced_tensor_is_replaced_under_all_its_names():
    other = torch.full((2,), 7.0)
    new = replace_tied(TENSORS, {"again": other})
    assert new["a"] is new["again"] is other
    assert new["b"] is B
