import pytest
import torch
from networks import Net, mlp
from torch import nn

from wsgraph import Group, Param, Spec, to_graph, trace


def written(hidden, **free):
    """A Spec by hand of an MLP with four inputs and two outputs; ``free`` groups lose their reason to be pinned."""
    groups = [
        Group("input", 4, free.get("input", "network input")),
        Group("hidden", hidden),
        Group("output", 2, free.get("output", "network output")),
    ]
    params = [
        Param("0.weight", ("hidden", "input"), "weight", reads=1),
        Param("0.bias", ("hidden",), "bias"),
        Param("2.weight", ("output", "hidden"), "weight", reads=1),
        Param("2.bias", ("output",), "bias"),
    ]
    return Spec(groups, params)


@pytest.fixture
def checks(monkeypatch):
    from wsgraph import confirming

    made = []
    check = confirming.verify_spec
    monkeypatch.setattr(confirming, "verify_spec", lambda *args, **kwargs: (made.append(1), check(*args, **kwargs)))
    return made


def test_a_spec_by_hand_that_is_wrong_is_refused():
    message = (
        r"permuting group 'output' of Sequential changes its outputs .*: the Spec that was passed is wrong. Correct"
    )
    for x in (torch.randn(3, 4), None):
        with pytest.raises(ValueError, match=message):
            to_graph(mlp(4, 17, 2), x, spec=written(17, output=""))
    assert to_graph(mlp(4, 17, 2), spec=written(17, output=""), verify=False).num_nodes == 23


def test_a_spec_by_hand_is_checked_once_per_architecture(checks):
    for _ in range(2):
        to_graph(mlp(4, 19, 2), spec=written(19))
    assert len(checks) == 1
    to_graph(mlp(4, 19, 2, activation=nn.GELU), spec=written(19))
    assert len(checks) == 2


def test_what_a_trace_has_checked_is_not_checked_again(checks):
    model = mlp(4, 21, 2)
    to_graph(model, spec=trace(model))
    to_graph(model, torch.randn(7, 4), spec=trace(model))
    assert checks == []


def test_shapes_come_first():
    with pytest.raises(ValueError, match=r"'0.weight' has shape \(5, 4\), but the Spec expects \(6, 4\)"):
        to_graph(mlp(4, 5, 2), spec=written(6))


def test_an_input_that_does_not_fit_is_named():
    with pytest.raises(ValueError, match=r"Sequential cannot be called with the example input \[\(2, 9\)\]"):
        to_graph(mlp(4, 23, 2), torch.randn(2, 9), spec=written(23))


def test_without_an_input_there_is_a_warning():
    model = Net(lambda m, x, y: m.a(x) + y, a=nn.Linear(4, 2))
    spec = trace(model, (torch.randn(3, 4), torch.randn(3, 2)), verify=False)
    with pytest.warns(UserWarning, match="not checked against Net, .*: pass example_input=, or verify=False") as caught:
        to_graph(model, spec=spec)
    assert [w.filename for w in caught] == [__file__]
    to_graph(model, spec=spec, verify=False)


def test_weights_that_have_no_values_are_not_checked():
    assert to_graph(mlp(4, 25, 2).to("meta"), spec=written(25, output="")).num_nodes == 31
