from collections import Counter

import pytest
import torch
from networks import Net, cnn, mlp
from torch import nn

from wsgraph import Group, Param, Permutation, Spec, to_graph, trace
from wsgraph.testing import (
    TOLERANCE,
    Residual,
    assert_equivariant,
    assert_function_preserved,
    node_index,
    random_architecture,
    random_graph,
)


def test_the_error_is_returned_and_tiny():
    assert 0 <= assert_function_preserved(cnn()) <= TOLERANCE[torch.float64]


def test_a_model_in_train_mode_is_judged_in_eval_mode_and_left_in_train_mode():
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Linear(5, 2)).train()
    before = model[1].running_mean.clone()
    assert_function_preserved(model, torch.randn(3, 4))
    assert model.training
    assert torch.equal(model[1].running_mean, before)


def test_a_wrong_spec_is_found():
    """A bias that stays behind."""
    groups = [Group("input", 4, why="network input"), Group("0", 5), Group("output", 2, why="network output")]
    params = [
        Param("0.weight", ("0", "input"), "weight", reads=1),
        Param("0.bias", (5,), "bias"),
        Param("2.weight", ("output", "0"), "weight", reads=1),
        Param("2.bias", ("output",), "bias"),
    ]
    with pytest.raises(AssertionError, match="permuting Sequential changes its outputs: relative error"):
        assert_function_preserved(mlp(4, 5, 2), torch.randn(3, 4), Spec(groups, params))


@pytest.mark.parametrize("outputs", [lambda y: (y, y > 0), lambda y: {"y": y, "label": y.argmax(1), "n": 3}])
def test_outputs_that_are_not_floats(outputs):
    model = Net(lambda m, x: outputs(m.b(torch.relu(m.a(x)))), a=nn.Linear(4, 5), b=nn.Linear(5, 2))
    spec = trace(mlp(4, 5, 2))
    renamed = {"0": "a", "2": "b"}
    params = [Param(renamed[p.name[0]] + p.name[1:], p.axes, p.role, p.reads) for p in spec.params.values()]
    assert_function_preserved(model, torch.randn(3, 4), Spec(spec.groups.values(), params))


def test_outputs_that_are_nan_are_not_equal():
    with pytest.raises(AssertionError, match="relative error nan"):
        assert_function_preserved(
            Net(lambda m, x: m.b(m.a(x)).abs().neg().log(), a=nn.Linear(4, 5), b=nn.Linear(5, 2)), torch.randn(3, 4)
        )


def test_an_equivariant_encoder_passes(dtype):
    def degree(graph):
        target = graph.edge_index[1]
        received = torch.zeros(graph.num_nodes, dtype=dtype).index_add(0, target, graph.edge_attr[:, 0])
        return torch.stack([received, graph.x[:, 0]], 1)

    assert assert_equivariant(degree, random_graph(1, dtype)) <= TOLERANCE[dtype]


@pytest.mark.parametrize(
    "encoder",
    [
        lambda graph: torch.arange(graph.num_nodes).double()[:, None],  # knows the numbers of neurons
        lambda graph: graph.x.cumsum(0),  # depends on their order
        lambda graph: graph.x[graph.spec.groups["0"].size :].sum() * torch.arange(graph.num_nodes).double(),
    ],
)
def test_an_encoder_that_looks_at_the_order_fails(encoder):
    with pytest.raises(AssertionError, match="the encoder is not equivariant: relative error"):
        assert_equivariant(encoder, to_graph(mlp(4, 9, 2).double()), torch.Generator().manual_seed(0))


def test_node_index_moves_each_group_within_its_nodes():
    spec = trace(mlp(4, 5, 2))
    permutation = Permutation(spec, {"0": torch.arange(5).roll(1)})
    assert node_index(permutation).tolist() == [0, 1, 2, 3, 8, 4, 5, 6, 7, 9, 10]


@pytest.mark.parametrize("seed", range(4))
def test_random_architectures_are_reproducible_and_leave_the_global_seed_alone(seed):
    state = torch.get_rng_state()
    (a, x), (b, y) = random_architecture(seed), random_architecture(seed)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(x, y)
    assert all(torch.equal(p, q) for p, q in zip(a.state_dict().values(), b.state_dict().values(), strict=True))
    assert a(x).isfinite().all()


def test_random_architectures_cover_the_kinds_of_network():
    models = [random_architecture(seed)[0] for seed in range(60)]
    seen = Counter(kind for model in models for kind in {type(m) for m in model.modules()})
    kinds = (
        Residual,
        nn.BatchNorm2d,
        nn.LayerNorm,
        nn.Flatten,
        nn.MaxPool2d,
        nn.AdaptiveAvgPool2d,
        nn.GELU,
        nn.Dropout,
    )
    assert all(seen[kind] >= 3 for kind in kinds)
    depths = {
        sum(isinstance(m, nn.Linear) for m in model)
        for model in models
        if all(not isinstance(m, nn.Conv2d) for m in model.modules())
    }
    assert {1, 8} <= depths
    shortcuts = [m.shortcut for model in models for m in model.modules() if isinstance(m, Residual)]
    assert any(isinstance(s, nn.Identity) for s in shortcuts)
    assert any(not isinstance(s, nn.Identity) for s in shortcuts)
    convs = [sum(isinstance(m, nn.Conv2d) for m in model.modules()) for model in models]
    assert {8, 13} <= set(convs)
