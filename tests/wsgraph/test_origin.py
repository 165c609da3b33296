"""The module that a graph was made of, and its copies run in."""

import copy
import pickle

import pytest
import torch
from networks import mlp
from torch import nn

from wsgraph import Permutation, to_graph
from wsgraph.origin import Origin


def conv():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(4 * 6 * 6, 2))


def test_copies_of_a_graph_run_with_their_own_tensors():
    model, x = conv(), torch.randn(5, 3, 8, 8)
    graph = to_graph(model)
    before = {k: t.clone() for k, t in model.state_dict().items()}
    other = graph.replace({k: torch.randn_like(t) for k, t in graph.tensors.items()})
    moved = Permutation.random(graph.spec).apply(graph)
    doubled = graph.clone()
    doubled.network = doubled.network.map(lambda t: t.double())
    for made in (graph, other, moved, doubled):
        running = made.network.origin.running(made.tensors)
        assert running is not model
        assert not running.training
        expected = made.to_module(model).eval()(x.to(made.network.like.dtype))
        torch.testing.assert_close(running(x.to(made.network.like.dtype)), expected)
    assert model.training
    assert all(torch.equal(t, before[k]) for k, t in model.state_dict().items())


@pytest.mark.parametrize(
    ("network", "example", "shape"),
    [
        (conv(), None, (3, 8, 8)),
        (conv(), torch.zeros(2, 3, 8, 8), (3, 8, 8)),
        (mlp(5, 4, 2), None, (5,)),
        (nn.Embedding(5, 4), torch.zeros(2, 3, dtype=torch.long), None),
        (nn.Bilinear(2, 3, 4), (torch.zeros(2, 2), torch.zeros(2, 3)), None),
        (nn.Bilinear(2, 3, 4), None, None),
    ],
)
def test_the_shape_of_one_input(network, example, shape):
    assert Origin(network, example).shape == shape


def test_copies_share_it_and_files_go_without():
    graph = to_graph(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))
    assert copy.deepcopy(graph).network.origin is graph.network.origin
    assert pickle.loads(pickle.dumps(graph)).network.origin is None
    assert to_graph(graph.to_state_dict(), spec=graph.spec).network.origin is None
