import pytest
import torch
from networks import Net, cnn, mlp
from torch import nn

from wsgraph import Param, Spec, trace
from wsgraph.spec import Scaling
from wsgraph.verify import AllDouble, call, error, verify_spec


def edited(spec, params=None, scalings=None):
    """The same spec with some parameters or the scalings replaced."""
    changed = [(params or {}).get(name, p) for name, p in spec.params.items()]
    return Spec(spec.groups.values(), changed, spec.scalings if scalings is None else scalings)


@pytest.mark.parametrize("left_behind", ["0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"])
def test_freshly_initialised_norms_hide_no_mistake(left_behind):
    """Scale 1, shift 0, mean 0, variance 1 look the same however they are permuted."""
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)).eval()
    x = torch.randn(3, 4)
    wrong = edited(trace(model, x), {left_behind: Param(left_behind, (5,))}, ())
    with pytest.raises(RuntimeError, match="permuting group '0' of Sequential changes its outputs"):
        verify_spec(model, wrong, (x,), {})


@pytest.mark.parametrize("size", [2, 3])
def test_small_groups_are_moved_too(size):
    """Half of all permutations of two neurons move nothing; the check must not draw one of those."""
    model, x = mlp(4, *(size,) * 6, 2, activation=nn.Tanh), torch.randn(3, 4)
    spec = trace(model)
    for name in ("0", "4", "10"):
        wrong = edited(spec, {f"{name}.bias": Param(f"{name}.bias", (size,))}, ())
        with pytest.raises(RuntimeError, match=f"permuting group '{name}'"):
            verify_spec(model, wrong, (x,), {})


def test_a_wrong_scaling_is_named():
    model, x = mlp(4, 5, 2, activation=nn.GELU), torch.randn(3, 4)
    scaling = Scaling("0", (("0.weight", 0), ("0.bias", 0)), (("2.weight", 1),))
    with pytest.raises(
        RuntimeError,
        match=r"positive scalings of groups \['0'\] of Sequential change its outputs .*: the trace is wrong",
    ):
        verify_spec(model, edited(trace(model), scalings=(scaling,)), (x,), {})


def assert_checked(model, x):
    """What is traced passes, and would not if one bias stayed behind."""
    spec = trace(model, x, verify=False)
    verify_spec(model, spec, (x,), {})
    wrong = edited(spec, {"a.bias": Param("a.bias", tuple(model.a.bias.shape))}, ())
    with pytest.raises(RuntimeError, match="permuting group 'a' of Net changes its outputs"):
        verify_spec(model, wrong, (x,), {})


def test_noise_in_forward_is_the_same_on_both_sides():
    model = Net(
        lambda m, x: m.b(m.a(x).relu()) + torch.randn(3, 2, dtype=x.dtype), a=nn.Linear(4, 5), b=nn.Linear(5, 2)
    )
    assert_checked(model, torch.randn(3, 4))


def test_casts_inside_forward_do_not_blur_the_check():
    """A norm in float32 would leave errors of 1e-7 that look like a wrong trace."""

    def norm(h):
        wide = h.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True))).to(h.dtype)

    model = Net(lambda m, x: m.b(norm(m.a(x))), a=nn.Linear(4, 64), b=nn.Linear(64, 2))
    assert_checked(model, torch.randn(3, 4))
    with AllDouble():
        assert norm(torch.randn(2, 4, dtype=torch.float64)).dtype == torch.float64
        assert torch.arange(3).float().dtype == torch.float64


def test_a_model_that_insists_on_its_dtype_is_checked_in_it():
    model = Net(lambda m, x: m.b(torch.relu(m.a(x @ torch.ones(4, 4)))), a=nn.Linear(4, 5), b=nn.Linear(5, 2))
    assert_checked(model, torch.randn(3, 4))


def test_calling_changes_nothing():
    model = nn.BatchNorm1d(4).train()
    x = torch.randn(3, 4)
    (out,) = call(model, (x,), {})
    torch.testing.assert_close(out, x, atol=1e-4, rtol=1e-4)  # eval mode
    assert int(model.num_batches_tracked) == 0
    assert model.training


@pytest.mark.parametrize(
    ("expected", "got", "differs"),
    [
        ([1.0, 2.0], [1.0, 2.0 + 1e-12], False),
        ([1.0, 2.0], [1.0, 2.1], True),
        ([1.0, 2.0], [1.0, float("nan")], True),
        ([1.0, float("nan")], [1.0, float("nan")], False),
        ([1.0, float("inf")], [1.0, float("inf")], False),
        ([float("nan"), 1.0], [float("nan"), 2.0], True),
        ([0.0, 0.0], [0.0, 0.0], False),
        ([0.0, 0.0], [0.0, 1e-6], True),
    ],
)
def test_what_counts_as_a_difference(expected, got, differs):
    tensors = ([torch.tensor(v, dtype=torch.float64)] for v in (expected, got))
    assert (error(*tensors) is not None) == differs


def test_right_specs_pass():
    model, x = cnn(), torch.randn(2, 3, 8, 8)
    verify_spec(model, trace(model, x), (x,), {})
