"""Inputs that vary as the first layers of two networks expect."""

import pytest
import torch
from networks import mlp
from torch import nn

import align
from align.running.dreams import SAMPLES, dreams, first_layers
from wsgraph import to_graph, trace
from wsgraph.randomness import seeded


def covariance(x):
    x = x.flatten(1).double()
    return x.T @ x / len(x)


def test_dreams_have_the_covariance_of_both_networks_first_layers():
    a, b = mlp(6, 9, 9, 3), mlp(6, 9, 9, 3)
    x = dreams((a, b), trace(a), samples=40_000, generator=seeded(1))
    parts = [m[0].weight.detach().double() for m in (a, b)]
    expected = sum(w.T @ w / w.square().sum() for w in parts) * 3  # unit variance on average over six inputs
    torch.testing.assert_close(covariance(x), expected, atol=0.06, rtol=0)


@pytest.mark.parametrize(
    ("network", "example"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 2)), torch.zeros(2, 3, 4)),
        (nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)), torch.zeros(2, 2, 4, 4)),
    ],
)
def test_dreams_have_the_shape_of_inputs_whatever_reads_them(network, example):
    x = dreams((network, network), trace(network, example), example, 50)
    assert x.shape == (50, *example.shape[1:])
    assert float(x.square().mean()) == pytest.approx(1, rel=1e-5)
    assert not torch.allclose(covariance(x), torch.eye(x[0].numel()).double(), atol=0.5)


class Cell(nn.Module):
    """A recurrent network, whose first layer returns a tuple."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTM(5, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.cell(x)[0][:, -1])


def test_recurrent_networks_dream():
    network, example = Cell().double(), torch.zeros(2, 3, 5, dtype=torch.float64)
    x = dreams((network, network), trace(network, example), example, 20)
    assert x.shape == (20, 3, 5)
    assert x.dtype == torch.float64


class Elsewhere(nn.Module):
    """A network that uses a weight outside the module that owns it."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x):
        return self.head(nn.functional.linear(x, self.inner.weight, self.inner.bias).relu())


def test_where_first_layers_cannot_be_watched_noise_is_left():
    network = Elsewhere()
    x = dreams((network,), trace(network, torch.zeros(2, 4)), torch.zeros(2, 4), 20_000)
    torch.testing.assert_close(covariance(x), torch.eye(4).double(), atol=0.05, rtol=0)


def test_networks_are_left_as_they_were():
    network = mlp(6, 9, 3).train()
    dreams((network, network), trace(network), samples=10)
    assert network.training
    assert all(p.grad is None and p.requires_grad for p in network.parameters())
    assert not any(m._forward_hooks for m in network.modules())


def test_first_layers_are_those_that_read_the_inputs():
    network = mlp(6, 9, 3)
    assert first_layers(network, trace(network)) == [network[0]]


def test_tokens_have_no_dreams():
    network = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 2))
    tokens = torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(ValueError, match=r"reads torch.int64 inputs, which noise cannot stand for; pass data="):
        dreams((network, network), trace(network, tokens), tokens)


@pytest.mark.filterwarnings("ignore:.*(found nothing better|improved nothing)")
@pytest.mark.parametrize("method", ["activation_matching", "sinkhorn", "ste"])
def test_methods_take_dreams_for_data(method):
    a, b = mlp(6, 9, 9, 3), mlp(6, 9, 9, 3)
    options = {} if method == "activation_matching" else {"iterations": 3}
    found = align.match(a, b, method, data="dreams", **options)
    x = dreams((a, b), trace(a), generator=seeded())
    assert len(x) == SAMPLES
    assert found.permutation == align.match(a, b, method, data=x, **options).permutation


def test_the_number_of_dreams_can_be_chosen():
    a, b = mlp(6, 9, 9, 3), mlp(6, 9, 9, 3)
    found = align.match(a, b, "activation_matching", data="dreams", samples=30)
    x = dreams((a, b), trace(a), samples=30, generator=seeded())
    assert found.permutation == align.match(a, b, "activation_matching", data=x).permutation


def test_graphs_have_no_dreams():
    a = mlp(6, 9, 3)
    with pytest.raises(TypeError, match="only what runs has use for data='dreams'"):
        align.match(to_graph(a), a, "sinkhorn", data="dreams", cost="l2")


@pytest.mark.filterwarnings("ignore:.*(found nothing better|improved nothing)")
@pytest.mark.parametrize("data", ["noise", "dreams"])
@pytest.mark.parametrize("method", ["sinkhorn", "ste"])
def test_the_example_input_tells_the_shape_of_what_is_drawn(method, data):
    found = align.match(Cell(), Cell(), method, data=data, iterations=2, example_input=torch.zeros(2, 3, 5))
    assert len(found.permutation.maps) > 0
