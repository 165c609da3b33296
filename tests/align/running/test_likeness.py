import threading

import pytest
import torch
from networks import Net, mlp
from torch import nn

import align
from align.running.likeness import require_alike
from wsgraph import to_graph


def slopes(slope):
    return nn.Sequential(nn.Linear(4, 5), nn.LeakyReLU(slope), nn.Linear(5, 3))


def powers(power):
    return Net(lambda m, x: m.b(m.a(x) ** power), a=nn.Linear(4, 5), b=nn.Linear(5, 3))


class TwoInputs(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.a, self.act = nn.Linear(4, 3), act

    def forward(self, x, y):
        return self.act(self.a(x) + y)


def opaque():
    model = mlp(4, 5, 3)
    model.lock = threading.Lock()
    return model


DIFFERENT = {
    "activation": (
        lambda k: mlp(4, 5, 3, activation=(nn.ReLU, nn.Tanh)[k]),
        r"'1' is ReLU\(\) in the first and Tanh\(",
    ),
    "slope": (lambda k: slopes(0.1 + k), r"'1' is LeakyReLU\(negative_slope=0.1\) in the first and LeakyReLU\("),
    "forward": (lambda k: powers(2 + k), "their forward, or settings of it, differ"),
    "what cannot be run here": (lambda k: TwoInputs((nn.ReLU(), nn.Tanh())[k]), r"'act' is ReLU\(\) in the first and"),
}
ALIKE = {
    "layers that only training knows": lambda k: nn.Sequential(
        nn.Linear(4, 5), (nn.Dropout(), nn.Identity())[k], nn.Linear(5, 3)
    ),
    "another name": lambda k: setattr(model := mlp(4, 5, 3), "nickname", str(k)) or model,
    "what cannot be compared": lambda k: opaque(),
    "counters": lambda k: counting(k),
}


def counting(k):
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
    model[1].num_batches_tracked += k
    return model


def masked(mask):
    model = Net(lambda m, x: m.body(x * m.mask), body=mlp(4, 5, 3))
    model.register_buffer("mask", torch.tensor(mask))
    return model


@pytest.mark.parametrize("name", DIFFERENT)
def test_functions_that_differ_have_nothing_between_them(name):
    make, message = DIFFERENT[name]
    message = f"equal shapes but compute different functions .*: {message}"
    data = (torch.randn(6, 4), torch.randint(3, (6,)))
    a, b = make(0), make(1)
    with pytest.raises(ValueError, match=message):
        align.merge(a, b)
    with pytest.raises(ValueError, match=message):
        align.barrier(a, b, data=data, points=3)
    require_alike([a, make(0)])


@pytest.mark.parametrize("name", ALIKE)
def test_what_makes_no_difference(name):
    require_alike([ALIKE[name](k) for k in (0, 1)])


def test_a_loader_is_not_used_up():
    data = iter([torch.randn(4, 4)])
    require_alike([opaque(), opaque()], data)
    assert len(list(data)) == 1


def test_integers_that_differ_have_no_average():
    message = "'mask' is of type torch.bool and differs between the networks, so there is nothing half way"
    with pytest.raises(TypeError, match=message):
        align.merge(masked([True, True, True, False]), masked([True, True, False, True]))
    align.merge(*(masked([True, True, True, False]) for _ in range(2)))


def test_complex_weights_are_refused():
    a, b = (nn.Sequential(nn.Linear(4, 5, dtype=torch.complex64), nn.Tanh()) for _ in range(2))
    data = (torch.randn(6, 4, dtype=torch.complex64), torch.randint(5, (6,)))
    for call in (
        lambda: align.merge(a, b),
        lambda: align.barrier(a, b, data=data),
        lambda: align.match(a, b, example_input=data[0]),
        lambda: align.distance(a, b, example_input=data[0]),
    ):
        with pytest.raises(TypeError, match=r"'0.weight' is complex \(torch.complex64\), expected real numbers"):
            call()


@pytest.mark.parametrize("width", [5, 6])
def test_the_learned_aligner_refuses_other_activations(width):
    a, b = to_graph(mlp(4, 5, 3)), to_graph(mlp(4, width, 3, activation=nn.Tanh))
    with pytest.raises(ValueError, match=r"'0' has (activation )?'relu' in the first and 'tanh' in the second"):
        align.DeepAlign()(a, b)


@pytest.mark.filterwarnings("ignore:.*assuming a plain chain of layers")
def test_activations_of_a_state_dict_are_not_known():
    assert align.DeepAlign()(to_graph(mlp(4, 5, 3)), to_graph(mlp(4, 5, 3, activation=nn.Tanh).state_dict()))
