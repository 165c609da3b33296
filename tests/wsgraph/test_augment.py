import pytest
import torch
from networks import Net, cnn, mlp, relative_error
from torch import nn

from wsgraph import augment, to_graph
from wsgraph.testing import TOLERANCE

STATISTICS = ("1.running_mean", "1.running_var", "1.num_batches_tracked")
ALL = [augment.Noise(0.1), augment.Mask(0.3), augment.Scale(0.5, 2.0)]
ALL.append(augment.Compose((augment.Scale(), augment.Noise(), augment.Mask())))


@pytest.fixture
def graph():
    return to_graph(cnn())


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("transform", ALL, ids=lambda t: type(t).__name__)
def test_a_new_graph_is_returned_and_the_seed_decides(graph, transform):
    before = {k: v.clone() for k, v in graph.tensors.items()}
    a, b, c = (transform(graph, seeded(k)) for k in (0, 0, 1))
    assert a.spec is graph.spec
    assert all(torch.equal(v, graph.tensors[k]) for k, v in before.items())
    assert all(torch.equal(a.tensors[k], b.tensors[k]) for k in before)
    assert not torch.equal(a.tensors["5.weight"], c.tensors["5.weight"])
    assert not torch.equal(a.tensors["5.weight"], before["5.weight"])


@pytest.mark.parametrize("transform", ALL[:2], ids=lambda t: type(t).__name__)
def test_norm_statistics_and_counters_are_left_alone(graph, transform):
    out = transform(graph, seeded())
    assert all(out.tensors[k] is graph.tensors[k] for k in STATISTICS)
    assert not torch.equal(out.tensors["1.weight"], graph.tensors["1.weight"])


def test_noise_is_relative_to_each_tensor():
    model = mlp(100, 100, 100).requires_grad_(False)
    model[2].weight.mul_(1000)
    graph = to_graph(model)
    out = augment.Noise(0.05)(graph, seeded())
    for name in ("0.weight", "2.weight"):
        noise = out.tensors[name] - graph.tensors[name]
        assert float(noise.std() / graph.tensors[name].std()) == pytest.approx(0.05, rel=0.05)
        assert abs(float(noise.mean())) < 0.01 * float(graph.tensors[name].std())


def test_masking_zeroes_a_share_and_keeps_the_mean():
    model = mlp(100, 200, 10).requires_grad_(False)
    model[0].weight.fill_(1.0)
    out = augment.Mask(0.2)(to_graph(model), seeded()).tensors["0.weight"]
    assert set(out.unique().tolist()) == {0.0, 1.25}
    assert float((out == 0).float().mean()) == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("model", [mlp(4, 6, 5, 2), cnn()], ids=["mlp", "cnn"])
def test_scaling_preserves_the_function_of_relu_networks(model, dtype):
    model, shape = model.to(dtype), (3, 3, 8, 8) if isinstance(model[0], nn.Conv2d) else (3, 4)
    scaled = augment.Scale(0.25, 4.0)(to_graph(model), seeded()).to_module(model)
    x = torch.randn(shape, dtype=dtype)
    assert relative_error(model(x), scaled(x)) <= TOLERANCE[dtype]


def test_noise_and_masks_do_not():
    model, x = cnn(), torch.randn(3, 3, 8, 8)
    for transform in ALL[:2]:
        assert relative_error(model(x), transform(to_graph(model), seeded()).to_module(model)(x)) > 1e-3


def test_scaling_leaves_networks_without_such_neurons_alone():
    graph = to_graph(mlp(4, 5, 2, activation=nn.GELU))
    out = augment.Scale(0.1, 10.0)(graph, seeded())
    assert all(out.tensors[k] is graph.tensors[k] for k in graph.tensors)


def test_composition_is_one_after_the_other(graph):
    scale, noise = augment.Scale(0.5, 2.0), augment.Noise(0.1)
    generator = seeded(3)
    expected = noise(scale(graph, generator), generator)
    got = augment.Compose((scale, noise))(graph, seeded(3))
    assert all(torch.equal(expected.tensors[k], got.tensors[k]) for k in expected.tensors)


def test_tied_weights_get_one_noise():
    model = Net(lambda m, x: m.b(torch.relu(m.a(x))), a=nn.Linear(5, 5), b=nn.Linear(5, 5))
    model.b.weight = model.a.weight
    out = augment.Noise()(to_graph(model), seeded())
    assert out.tensors["a.weight"] is out.tensors["b.weight"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("transform", ALL, ids=lambda t: type(t).__name__)
def test_dtype_and_device_stay(transform, dtype):
    out = transform(to_graph(mlp(4, 5, 2).to(dtype)), seeded())
    assert all(t.dtype == dtype for t in out.tensors.values())
    assert all(t.isfinite().all() for t in out.tensors.values())


def test_works_without_a_generator_and_on_the_meta_device():
    graph = to_graph(cnn()).to("meta")
    for transform in ALL:
        assert all(t.is_meta for t in transform(graph).tensors.values())


def test_gradients_pass_through():
    model = mlp(4, 5, 2)
    out = ALL[3](to_graph(model), seeded())
    sum(t.square().sum() for t in out.tensors.values()).backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("p", [-0.1, 1.0])
def test_a_mask_of_everything_is_refused(p):
    with pytest.raises(ValueError, match=r"expected 0 <= p < 1, got"):
        augment.Mask(p)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0)])
def test_factors_that_are_not_positive_are_refused(low, high):
    with pytest.raises(ValueError, match=r"expected 0 < low <= high, got"):
        augment.Scale(low, high)
