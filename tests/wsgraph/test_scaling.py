# ruff: noqa: E501 - one case per line
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import Net, cnn, mlp, relative_error, trained
from torch import nn
from torch.nn import functional as F

from wsgraph import Spec, to_graph, trace
from wsgraph.augment import Scale
from wsgraph.rescale import random_factors, rescale
from wsgraph.testing import TOLERANCE, random_architecture

VECTOR, IMAGE = (3, 6), (2, 3, 8, 8)


def linear(*sizes):
    return {name: nn.Linear(*size) for name, size in zip("abcde", sizes, strict=False)}


SCALED = {
    "relu": (lambda: mlp(6, 5, 4, 2), VECTOR, {"0", "2"}),
    "leaky relu": (lambda: mlp(6, 5, 2, activation=nn.LeakyReLU), VECTOR, {"0"}),
    "prelu per channel": (lambda: nn.Sequential(nn.Linear(6, 5), nn.PReLU(5), nn.Linear(5, 2)), VECTOR, {"0"}),
    "no activation": (lambda: nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 2)), VECTOR, {"0"}),
    "conv, batch norm, pooling, Flatten": (cnn, IMAGE, {"0", "5"}),
    "average pooling": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AvgPool2d(2, padding=1), nn.Conv2d(4, 2, 1)), IMAGE, {"0"}),
    "depthwise with multiplier": (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 8, 3, groups=4), nn.ReLU(), nn.Conv2d(8, 2, 1)), IMAGE, {"0", "1"}),
    "residual": (lambda: Net(lambda m, x: m.c((lambda h: h + m.b(h.relu()))(m.a(x)).relu()), **linear((6, 5), (5, 5), (5, 2))), VECTOR, {"a"}),
    "concatenation": (lambda: Net(lambda m, x: m.c(torch.cat([m.a(x), m.b(x)], 1).relu()), **linear((6, 3), (6, 4), (7, 2))), VECTOR, {"a", "b"}),
    "a negative constant": (lambda: Net(lambda m, x: m.b(-2 * m.a(x).relu() / 3), **linear((6, 5), (5, 2))), VECTOR, {"a"}),
    "one layer used twice": (lambda: Net(lambda m, x: m.c(m.b(m.b(m.a(x).relu()).relu()).relu()), **linear((6, 5), (5, 5), (5, 2))), VECTOR, {"a"}),
    "layer norm with parameters": (lambda: trained(nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 2))), VECTOR, {"0"}),
}  # fmt: skip
UNSCALED = {
    "gelu": (lambda: mlp(6, 5, 2, activation=nn.GELU), VECTOR),
    "relu6": (lambda: mlp(6, 5, 2, activation=nn.ReLU6), VECTOR),
    "a constant added": (lambda: Net(lambda m, x: m.b((m.a(x) + 1).relu()), **linear((6, 5), (5, 2))), VECTOR),
    "a product of two streams": (lambda: Net(lambda m, x: m.c(m.a(x).relu() * m.b(x).relu()), **linear((6, 5), (6, 5), (5, 2))), VECTOR),
    "layer norm without parameters": (lambda: Net(lambda m, x: m.b(F.layer_norm(m.a(x), (5,))), **linear((6, 5), (5, 2))), VECTOR),
    "the sum of all neurons": (lambda: Net(lambda m, x: m.a(x).relu().sum(1), **linear((6, 5))), VECTOR),
    "a reader that also reads a gelu": (lambda: Net(lambda m, x: m.c(m.a(x).relu()) + m.c(F.gelu(m.b(x))), **linear((6, 5), (6, 5), (5, 2))), VECTOR),
    "the same in the other order": (lambda: Net(lambda m, x: m.c(F.gelu(m.b(x))) + m.c(m.a(x).relu()), **linear((6, 5), (6, 5), (5, 2))), VECTOR),
    "padding with ones": (lambda: Net(lambda m, x: m.b(F.pad(m.a(x).relu(), (0, 1), value=1.0)), **linear((6, 5), (6, 2))), VECTOR),
    "a weight that is used elsewhere": (lambda: Net(lambda m, x: m.b(m.a(x).relu()) + m.a.weight.sum(), **linear((6, 5), (5, 2))), VECTOR),
}  # fmt: skip


def scaled_outputs(model, x, factors=None):
    """Outputs before and after scaling by factors between 1/4 and 4, in float64."""
    model, x = model.double().eval(), x.double()
    spec = trace(model, x)
    factors = random_factors(spec, 0.25, 4.0, torch.Generator().manual_seed(1)) if factors is None else factors
    tensors = rescale(dict(model.state_dict()), spec, factors)
    with torch.no_grad():
        return model(x), torch.func.functional_call(model, tensors, (x,)), tensors


@pytest.mark.parametrize("name", SCALED)
def test_scalings_preserve_the_function_exactly(name):
    make, shape, groups = SCALED[name]
    model, x = make(), torch.randn(shape)
    before = {k: v.clone().double() for k, v in model.state_dict().items()}
    expected, got, tensors = scaled_outputs(model, x)
    assert {s.group for s in trace(model, x.double()).scalings} == groups
    assert relative_error(expected, got) <= TOLERANCE[torch.float64]
    assert any(relative_error(before[k], tensors[k].double()) > 0.1 for k in before if before[k].dim() > 1)


@pytest.mark.parametrize("name", UNSCALED)
def test_nothing_is_scaled_where_scale_matters(name):
    make, shape = UNSCALED[name]
    assert trace(make(), torch.randn(shape)).scalings == ()


@settings(max_examples=8)
@given(st.integers(0, 10_000))
def test_scalings_of_random_architectures(seed):
    model, x = random_architecture(seed)
    expected, got, _ = scaled_outputs(model, x)
    assert relative_error(expected, got) <= TOLERANCE[torch.float64]


def test_batch_norm_gives_a_scale_to_its_own_parameters_not_to_the_layer_before():
    (scaling,) = (s for s in trace(cnn()).scalings if s.group == "0")
    assert set(scaling.up) == {("1.weight", 0), ("1.bias", 0)}
    assert scaling.down == (("5.weight", 1),)


@pytest.mark.parametrize("detached", [False, True])
def test_tied_layers_are_scaled_under_all_their_names(detached):
    model = mlp(6, 5, 5, 5, 2)
    model[4].weight = model[2].weight
    spec = trace(model)
    tensors = dict(model.state_dict(keep_vars=not detached))
    out = rescale(tensors, spec, random_factors(spec, 0.5, 2.0))
    assert not torch.equal(out["2.weight"], tensors["2.weight"])
    assert torch.equal(out["2.weight"], out["4.weight"])
    assert (out["2.weight"] is out["4.weight"]) == (not detached)


def test_only_one_half_of_a_scaling_changes_the_function():
    model, x = mlp(6, 5, 2), torch.randn(3, 6)
    spec = trace(model)
    half = Spec(spec.groups.values(), spec.params.values(), [type(s)(s.group, s.up, ()) for s in spec.scalings])
    out = rescale(dict(model.state_dict()), half, random_factors(half, 2.0, 4.0))
    assert relative_error(model(x), torch.func.functional_call(model, out, (x,))) > 0.1


def test_factors_are_positive_and_in_range():
    spec = trace(mlp(6, 50, 2))
    (factor,) = random_factors(spec, 0.5, 3.0, torch.Generator().manual_seed(0))
    assert factor.shape == (50,)
    assert 0.5 <= factor.min() < 0.8 < 2 < factor.max() <= 3.0


def test_the_augmentation_uses_them(dtype):
    model, x = cnn().to(dtype), torch.randn(2, 3, 8, 8, dtype=dtype)
    scaled = Scale(0.5, 2.0)(to_graph(model), torch.Generator().manual_seed(0)).to_module(model)
    assert relative_error(model(x), scaled(x)) <= TOLERANCE[dtype]
    assert relative_error(model[5].weight, scaled[5].weight) > 0.1
