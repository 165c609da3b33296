import pytest
import torch
from networks import cnn, mlp
from torch import nn

import align
from align.merging.scale import match_scale
from wsgraph import Permutation, to_graph
from wsgraph.augment import Scale
from wsgraph.rescale import random_factors, rescale
from wsgraph.testing import Residual

NETWORKS = {
    "one hidden layer": (lambda: mlp(4, 7, 3), (4,)),
    "deep": (lambda: mlp(4, 7, 6, 8, 5, 3), (4,)),
    "cnn": (lambda: cnn(norm=False), (3, 8, 8)),
    "norm": (cnn, (3, 8, 8)),
    "residual": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 1), Residual(4, 4, False), nn.Flatten(), nn.Linear(64, 2)),
        (3, 4, 4),
    ),
    "depthwise": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3, groups=6), nn.ReLU(), nn.Flatten(), nn.Linear(96, 2)
        ),
        (3, 8, 8),
    ),
}  # fmt: skip


def pair(name):
    make, shape = NETWORKS[name]
    x = torch.randn(6, *shape, dtype=torch.float64)
    model = make().double()
    return model, to_graph(model, x), x


@pytest.mark.parametrize("name", NETWORKS)
def test_a_planted_scaling_is_undone(name):
    _, a, _ = pair(name)
    assert a.spec.scalings
    b = a.replace(rescale(a.tensors, a.spec, random_factors(a.spec, 0.05, 20)))
    found = match_scale(a, b)
    for k, t in a.tensors.items():
        torch.testing.assert_close(found.tensors[k].detach(), t.detach(), atol=1e-6, rtol=1e-6, msg=k)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_function_is_kept(name):
    model, a, x = pair(name)
    other = a.replace({k: torch.rand_like(t) + 0.1 if t.is_floating_point() else t for k, t in a.tensors.items()})
    b = to_graph(other.to_module(model), x)
    scaled = match_scale(a, b).to_module(model)
    expected = b.to_module(model)(x)
    torch.testing.assert_close(scaled(x), expected, rtol=1e-8, atol=1e-8 * float(expected.detach().abs().max()))


def test_neurons_that_write_or_read_nothing_stay():
    model = mlp(4, 5, 3)
    model[0].weight.data[1] = model[0].bias.data[1] = 0
    model[2].weight.data[:, 2] = 0
    a, b = to_graph(mlp(4, 5, 3)), to_graph(model)
    found = match_scale(a, b)
    assert all(t.isfinite().all() for t in found.tensors.values())
    x = torch.randn(9, 4)
    torch.testing.assert_close(found.to_module(model)(x), model(x))


def test_nothing_to_scale():
    a, b = (to_graph(mlp(4, 5, 3, activation=nn.Tanh)) for _ in range(2))
    found = match_scale(a, b)
    assert all(torch.equal(found.tensors[k], t) for k, t in b.tensors.items())


@pytest.mark.parametrize("kind", ["module", "graph"])
def test_matching_takes_turns_with_rescaling(kind):
    """A planted permutation and a violent planted scaling: weights alone mislead, turns find both."""
    alone = turns = 0
    for seed in range(6):
        torch.manual_seed(seed)
        a = mlp(6, 16, 16, 3)
        graph = to_graph(a)
        planted = Permutation.random(graph.spec)
        b = Scale(0.02, 50.0)(planted.apply(graph), torch.Generator().manual_seed(seed))
        pair = (graph, b) if kind == "graph" else (a, b.to_module(a))
        found = align.match(*pair, scale=True, seed=0)
        alone += align.match(*pair, seed=0).permutation == planted.inverse()
        turns += found.permutation == planted.inverse() and found.converged
    assert alone < turns == 6


def test_scale_of_a_merge_follows_its_alignment():
    a = mlp(6, 16, 16, 3)
    graph = to_graph(a)
    b = Scale(0.2, 5.0)(Permutation.random(graph.spec).apply(graph)).to_module(a)
    merged = align.merge(a, b, alignment=align.match(a, b, scale=True, seed=0), scale=True)
    x = torch.randn(20, 6)
    torch.testing.assert_close(merged(x), a(x), rtol=1e-3, atol=1e-3)
