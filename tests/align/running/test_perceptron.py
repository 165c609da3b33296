"""Plain MLPs from their graphs: the same function as the module's, and nothing else is taken for one."""

import pytest
import torch
from networks import Net, cnn, mlp
from torch import nn
from torch.nn import functional as F

from align.running.perceptron import ACTIVATIONS, forward, is_perceptron, layers_of
from wsgraph import to_graph
from wsgraph.testing import TOLERANCE

MODULES = {
    "relu": nn.ReLU, "leaky_relu": nn.LeakyReLU, "gelu": nn.GELU, "silu": nn.SiLU, "elu": nn.ELU, "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid, "softplus": nn.Softplus, "hardswish": nn.Hardswish,
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_function_is_the_module_s(name, dtype):
    models = [mlp(6, 8, 5, 3, activation=MODULES[name]).to(dtype) for _ in range(2)]
    x = torch.randn(7, 6, dtype=dtype)
    said = forward(layers_of([to_graph(m).network for m in models]), x)
    expected = torch.stack([m(x) for m in models])
    torch.testing.assert_close(said, expected, rtol=0, atol=TOLERANCE[dtype])


def test_images_and_layers_without_biases():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 8, bias=False), nn.GELU(), nn.Dropout(), nn.Linear(8, 2)).eval()
    x = torch.randn(5, 3, 4)
    layers = layers_of([to_graph(model, x).network])
    torch.testing.assert_close(forward(layers, x.flatten(1))[0], model(x))
    assert [layer.source for layer in layers] == ["input", "1"]


def skipping(self, x):
    h = F.relu(self.a(x))
    return self.c(h + F.relu(self.b(h)))


def concatenated(self, x):
    h = F.relu(self.a(x))
    return self.c(torch.cat([h, F.relu(self.b(h))], 1))


def parts(**sizes):
    return {name: nn.Linear(*size) for name, size in sizes.items()}


OTHERS = {
    "a convolution": (cnn(), torch.randn(2, 3, 8, 8)),
    "a norm": (nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 2)), torch.randn(2, 4)),
    "a stream": (Net(skipping, **parts(a=(4, 5), b=(5, 5), c=(5, 2))), torch.randn(2, 4)),
    "a concatenation": (Net(concatenated, **parts(a=(4, 5), b=(5, 6), c=(11, 2))), torch.randn(2, 4)),
    "sines": (Net(lambda s, x: s.b(torch.sin(30 * s.a(x))), **parts(a=(4, 5), b=(5, 2))), torch.randn(2, 4)),
    "no activation": (mlp(4, 5, 2, activation=nn.Identity), torch.randn(2, 4)),
    "probabilities": (nn.Sequential(*mlp(4, 5, 2), nn.Sigmoid()), torch.randn(2, 4)),
    "two inputs": (Net(lambda s, x, y: s.c(F.relu(s.a(x) + s.b(y))), **parts(a=(4, 5), b=(3, 5), c=(5, 2))),
                   (torch.randn(2, 4), torch.randn(2, 3))),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_more_than_dense_layers_in_a_row_is_none(what):
    model, x = OTHERS[what]
    graph = to_graph(model, x)
    assert not is_perceptron(graph.spec)
    with pytest.raises(ValueError, match="more than dense layers in a row"):
        layers_of([graph.network])


def test_a_state_dict_does_not_say_what_follows_its_layers():
    with pytest.warns(UserWarning, match="read off the tensors"):
        graph = to_graph(mlp(4, 5, 2).state_dict())
    assert not is_perceptron(graph.spec)
