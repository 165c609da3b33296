"""Parameters whose columns are permuted differently in every run of rows."""

import pytest
import torch

from wsgraph import Group, Param, Permutation, Spec

SPEC = Spec(
    [
        Group("input", 3, "network input"),
        Group("runs", 2),
        Group("read", 6, parent="runs"),
        Group("written", 8, parent="runs"),
        Group("output", 2, "network output"),
    ],
    [
        Param("first", ("read", "input"), "weight", reads=1),
        Param("grouped", ("written", "/read", 3), "weight", reads=1),
        Param("last", ("output", "written"), "weight", reads=1),
    ],
)


def network(x, t):
    """first, a grouped convolution with one position and three taps summed up, last."""
    h = (t["first"] @ x).view(2, 1, 3)
    h = torch.tanh((t["grouped"].sum(-1).view(2, 4, 3) * h).sum(-1)).flatten()
    return t["last"] @ h


@pytest.fixture
def tensors():
    return {name: torch.randn(SPEC.shape(name), dtype=torch.float64) for name in SPEC.params}


def test_shape_of_a_factor_inside_runs():
    assert SPEC.shape("grouped") == (8, 3, 3)


def test_the_function_is_preserved(tensors):
    x = torch.randn(3, dtype=torch.float64)
    for seed in range(5):
        permuted = Permutation.random(SPEC, torch.Generator().manual_seed(seed)).apply(tensors)
        torch.testing.assert_close(network(x, permuted), network(x, tensors))


def test_inverse_and_composition(tensors):
    p, q = (Permutation.random(SPEC, torch.Generator().manual_seed(k)) for k in (1, 2))
    there = p.apply(tensors)["grouped"]
    assert not torch.equal(there, tensors["grouped"])
    assert torch.equal(p.inverse().apply(p.apply(tensors))["grouped"], tensors["grouped"])
    assert torch.equal((p @ q).apply(tensors)["grouped"], p.apply(q.apply(tensors))["grouped"])


def test_matrices_do_what_indices_do(tensors):
    p = Permutation.random(SPEC, torch.Generator().manual_seed(3))
    soft = Permutation(SPEC, {g.name: p.matrix(g.name).double() for g in SPEC.free})
    torch.testing.assert_close(soft.apply(tensors)["grouped"], p.apply(tensors)["grouped"])


def test_soft_permutations_are_differentiable(tensors):
    maps = {
        g.name: torch.full((g.size, g.size), 1 / g.size, dtype=torch.float64, requires_grad=True) for g in SPEC.free
    }
    Permutation(SPEC, maps).apply(tensors)["grouped"].square().sum().backward()
    assert all(maps[name].grad.abs().sum() > 0 for name in ("read", "written"))


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (("/runs", "input"), "group 'runs' must be nested in another"),
        (("input", "/read"), "exactly one other factor of the parameter must be 'runs' or nested in it"),
        (("written", "written", "/read"), "exactly one other factor"),
    ],
)
def test_runs_that_cannot_be_told_are_refused(axes, message):
    with pytest.raises(ValueError, match=message):
        Spec(SPEC.groups.values(), [Param("odd", axes, "weight")])
