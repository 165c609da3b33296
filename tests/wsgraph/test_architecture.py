import functools

import pytest
import torch
from networks import Net, cnn, mlp, randomised
from torch import nn
from torch.func import functional_call

from wsgraph.architecture import architecture_key


def key(model, x=None):
    return architecture_key(model, x)


class Helper:
    """Not a module, but decides what forward does."""

    def __init__(self, power):
        self.power = power

    def act(self, x):
        return x**self.power


def act(x, power=2):
    return x**power


def net(**attributes):
    model = mlp(4, 5, 2)
    for name, value in attributes.items():
        object.__setattr__(model, name, value) if isinstance(value, nn.Module) else setattr(model, name, value)
    return model


def closure(power):
    return lambda x: x**power


SAME = {
    "weights": lambda k: randomised(mlp(4, 5, 2), k),
    "a function": lambda k: net(f=act),
    "a closure": lambda k: net(f=closure(3)),
    "a partial": lambda k: net(f=functools.partial(act, power=3)),
    "a method": lambda k: net(f=Helper(3).act),
    "an object": lambda k: net(f=Helper(3)),
    "a library": lambda k: net(f=torch),
    "a set": lambda k: net(f={1, "a"}),
    "modules in a plain list": lambda k: net(f=[nn.LeakyReLU(0.1)]),
    "recurrent weights": lambda k: randomised(nn.LSTM(4, 5), k),
    "recurrent weights that were replaced": lambda k: replaced(nn.GRU(4, 5), k),
    "training mode": lambda k: mlp(4, 5, 2).train(k == 0),
    "gradients": lambda k: mlp(4, 5, 2).requires_grad_(k == 0),
}
DIFFERENT = {
    "widths": lambda k: mlp(4, 5 + k, 2),
    "activation": lambda k: mlp(4, 5, 2, activation=(nn.ReLU, nn.GELU)[k]),
    "a slope": lambda k: nn.Sequential(nn.Linear(4, 5), nn.LeakyReLU(0.1 + k)),
    "heads": lambda k: nn.MultiheadAttention(8, 2 + 2 * k),
    "a stride": lambda k: nn.Conv2d(3, 3, 3, stride=1 + k),
    "dtype": lambda k: mlp(4, 5, 2).to((torch.float32, torch.float64)[k]),
    "device": lambda k: mlp(4, 5, 2).to(("cpu", "meta")[k]),
    "a closure": lambda k: net(f=closure(k)),
    "default arguments": lambda k: net(f=(lambda x, n=k: x**n)),
    "a partial": lambda k: net(f=functools.partial(act, power=k)),
    "a method of another object": lambda k: net(f=Helper(k).act),
    "an object": lambda k: net(f=Helper(k)),
    "a builtin": lambda k: net(f=(torch.relu, torch.tanh)[k]),
    "modules in a plain list": lambda k: net(f=[nn.Flatten(1 + k)]),
    "a module hidden from the state dict": lambda k: net(f=(nn.Softmax(k),)),
    "a dictionary": lambda k: net(f={"mode": k}),
    "true and one": lambda k: net(f=(True, 1)[k]),
    "a missing bias": lambda k: nn.Linear(4, 5, bias=bool(k)),
    "persistence of a buffer": lambda k: buffered(bool(k)),
    "tied weights": lambda k: tied(bool(k)),
    "tied recurrent weights": lambda k: tied_recurrent(bool(k)),
    "layers and directions": lambda k: nn.LSTM(4, 5, num_layers=2 - k, bidirectional=bool(k)),
    "the first axis of a recurrent layer": lambda k: nn.GRU(4, 5, batch_first=bool(k)),
    "the function of a recurrent layer": lambda k: nn.RNN(4, 5, nonlinearity=("tanh", "relu")[k]),
    "a shared module": lambda k: shared(bool(k)),
}


def buffered(persistent):
    model = mlp(4, 5, 2)
    model.register_buffer("b", torch.zeros(5), persistent=persistent)
    return model


def tied(tie):
    model = mlp(5, 5, 5)
    if tie:
        model[2].weight = model[0].weight
    return model


def tied_recurrent(tie):
    model = nn.LSTM(5, 5)
    if tie:
        model.weight_hh_l0 = model.weight_ih_l0
    return model


def replaced(model, replace):
    """What a recurrent layer remembers of its weights is out of date after this, until forward is called."""
    if replace:
        functional_call(model, {k: p + 1 for k, p in model.named_parameters()}, (torch.zeros(2, 1, 4),))
    return model


def shared(share):
    layer = nn.Linear(5, 5)
    return nn.Sequential(layer, layer if share else nn.Linear(5, 5))


@pytest.mark.parametrize("name", SAME)
def test_what_does_not_matter_gives_one_key(name):
    a, b = key(SAME[name](0)), key(SAME[name](1))
    assert a is not None
    assert hash(a) == hash(b)
    assert a == b


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_matters_gives_two_keys(name):
    a, b = key(DIFFERENT[name](0)), key(DIFFERENT[name](1))
    assert a is not None
    assert b is not None
    assert a != b


def test_the_shapes_of_the_example_input_count():
    model = cnn()
    assert key(model, torch.zeros(2, 3, 8, 8)) == key(model, torch.ones(2, 3, 8, 8))
    assert key(model, torch.zeros(2, 3, 8, 8)) != key(model, torch.zeros(1, 3, 8, 8))
    assert key(model, (torch.zeros(2), 3)) != key(model, (torch.zeros(2), 4))


def test_what_cannot_be_compared_gives_no_key():
    cyclic = []
    cyclic.append(cyclic)
    assert key(net(f=iter([]))) is None
    assert key(net(f=cyclic)) is None


def test_a_closure_over_a_variable_that_has_no_value_yet_gives_no_key():
    def function():
        return later

    assert key(Net(function, fc=nn.Linear(2, 2))) is None
    later = 1


def test_references_to_registered_modules_do_not_loop():
    a, b = (mlp(4, 5, 2) for _ in range(2))
    for model in (a, b):
        object.__setattr__(model[0], "owner", [model])
    assert key(a) == key(b)
    assert key(a) is not None
