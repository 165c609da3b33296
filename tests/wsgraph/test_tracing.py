import copy
import logging

import pytest
import torch
from networks import Net, cnn, free_sizes, mlp, randomised, relative_error, vgg
from torch import nn

from wsgraph import Group, Param, Permutation, Spec, to_graph, trace
from wsgraph.testing import assert_function_preserved

VGG16 = ((2, 2, 3, 3, 3), (64, 128, 256, 512, 512))


@pytest.fixture
def exports(monkeypatch):
    """How often torch.export ran."""
    calls, original = [], torch.export.export
    monkeypatch.setattr(torch.export, "export", lambda *args, **kwargs: calls.append(1) or original(*args, **kwargs))
    return calls


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x) if x.sum() > 0 else -self.fc(x)


class Counting(nn.Module):
    """Updates a buffer whenever it is called, also in eval mode, and writes to its input."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 5), nn.Linear(5, 2)
        self.register_buffer("calls", torch.zeros(5))

    def forward(self, x):
        self.calls += 1
        return self.fc2(torch.relu(self.fc1(x.mul_(2))) * self.calls)


class Opaque(nn.Module):
    """Holds something that has no attributes to compare."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.secret = iter(range(3))

    def forward(self, x):
        return self.fc(x)


# ---------------------------------------------------------------------------------------------------------- the result


def test_a_spec_says_what_moves_and_why_the_rest_does_not():
    spec = trace(cnn())
    assert {g.name: (g.size, g.why, g.activation, g.shape) for g in spec.groups.values()} == {
        "input": (3, "network input", "identity", (3,)),
        "0": (6, "", "relu", ()),
        "5": (5, "", "relu", ()),
        "output": (2, "network output", "identity", (2,)),
    }
    roles = {name: (p.role, p.block) for name, p in spec.params.items()}
    assert roles["0.weight"] == ("weight", None)
    assert roles["0.bias"] == ("bias", "0.weight")
    assert roles["1.weight"] == ("norm_scale", "0.weight")
    assert roles["1.running_var"] == ("variance", "0.weight")
    assert str(spec.params["5.weight"].axes[1]) == "0·4·4"


def test_parameters_come_in_order_of_execution():
    model = Net(lambda m, x: m.z(m.a(m.k(x).relu()).relu()), a=nn.Linear(5, 6), k=nn.Linear(4, 5), z=nn.Linear(6, 2))
    assert [name for name in trace(model, torch.randn(2, 4)).params if "weight" in name] == [
        "k.weight",
        "a.weight",
        "z.weight",
    ]


@pytest.mark.parametrize(
    ("activation", "name"),
    [
        (nn.ReLU, "relu"),
        (nn.GELU, "gelu"),
        (nn.SiLU, "silu"),
        (nn.Tanh, "tanh"),
        (nn.PReLU, "prelu"),
        (nn.Hardswish, "hardswish"),
    ],
)
def test_groups_know_the_activation_that_follows(activation, name):
    assert trace(mlp(4, 5, 2, activation=activation)).groups["0"].activation == name


def test_a_flattened_image_keeps_its_grid():
    spec = trace(nn.Sequential(nn.Flatten(), nn.Linear(784, 5), nn.ReLU(), nn.Linear(5, 2)))
    assert spec.groups["input"].shape == (1, 28, 28)


def test_slices_cut_channels_into_parts():
    model = Net(lambda m, x: m.b(torch.relu(m.a(x))[:, 2:6]), a=nn.Conv2d(3, 8, 1), b=nn.Conv2d(4, 2, 1))
    spec = trace(model, torch.randn(2, 3, 4, 4))
    assert free_sizes(spec) == {"a": 2, "a.2": 4, "a.3": 2}
    assert str(spec.params["a.weight"].axes[0]) == "a+a.2+a.3"
    assert str(spec.params["b.weight"].axes[1]) == "a.2"


def test_a_module_that_picks_channels_keeps_those_pinned():
    model = Net(lambda m, x: m.b(torch.relu(m.a(x))[:, ::2]), a=nn.Conv2d(3, 8, 1), b=nn.Conv2d(4, 2, 1))
    spec = trace(model, torch.randn(2, 3, 4, 4))
    assert spec.free == ()
    assert spec.groups["a"].why == "sliced"
    assert "sliced" in str(spec)
    with pytest.raises(ValueError, match=r"group 'a' is pinned \(sliced\) and cannot be permuted"):
        Permutation(spec, {"a": torch.arange(8).roll(1)})


def test_unused_parameters_are_carried_along():
    model = Net(lambda m, x: m.b(torch.relu(m.a(x))), a=nn.Linear(4, 5), b=nn.Linear(5, 2), unused=nn.Linear(5, 5))
    spec = trace(model, torch.randn(3, 4))
    permuted = Permutation.random(spec).apply(model)
    assert free_sizes(spec) == {"a": 5}
    assert torch.equal(permuted.unused.weight, model.unused.weight)


def test_parameters_on_the_module_itself():
    parameters = nn.ParameterList([torch.randn(5, 4), torch.randn(5), torch.randn(2, 5)])
    model = Net(lambda m, x: torch.relu(x @ m.w[0].T + m.w[1]) @ m.w[2].T, w=parameters)
    assert free_sizes(trace(model, torch.randn(3, 4))) == {"w": 5}
    assert_function_preserved(model, torch.randn(3, 4))


@pytest.mark.parametrize("share", ["weight", "module"])
def test_tied_and_reused_layers_move_as_one(share):
    first, second = nn.Linear(5, 5), nn.Linear(5, 5)
    if share == "weight":
        second.weight = first.weight
    else:
        second = first
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), first, nn.ReLU(), second, nn.ReLU(), nn.Linear(5, 2))
    x = torch.randn(3, 4)
    spec = trace(model, x)
    permuted = Permutation.random(spec).apply(model)
    assert free_sizes(spec) == {"0": 5}
    assert (
        [str(a) for a in spec.params["2.weight"].axes] == [str(a) for a in spec.params["4.weight"].axes] == ["0", "0"]
    )
    assert permuted[2].weight is permuted[4].weight
    assert not torch.equal(permuted[2].weight, model[2].weight)
    assert relative_error(model(x), permuted(x)) < 1e-5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_weights_of_every_float_type(dtype):
    model, x = cnn().to(dtype), torch.randn(2, 3, 8, 8, dtype=dtype)
    assert trace(model, x) == trace(cnn(), x.float())
    assert_function_preserved(model, x)


def test_networks_on_the_meta_device():
    spec = trace(cnn().to("meta"))
    assert spec == trace(cnn())


def test_several_inputs_by_position_and_by_name():
    model = Net(lambda m, x, scale: m.b(torch.relu(m.a(x)) * scale), a=nn.Linear(4, 5), b=nn.Linear(5, 2))
    x = torch.randn(3, 4)
    assert trace(model, (x, 2.0)) == trace(model, {"scale": 2.0, "x": x}) == trace(model, [x, 2.0])


# ------------------------------------------------------------------------------------------------- nothing is disturbed


def test_the_model_its_mode_and_the_random_numbers_stay_as_they_are():
    model, x = Counting(), torch.randn(3, 4)
    model.fc1.eval()
    before, given, modes = copy.deepcopy(model.state_dict()), x.clone(), [m.training for m in model.modules()]
    random = torch.get_rng_state()
    trace(model, x)
    assert all(torch.equal(model.state_dict()[k], v) for k, v in before.items())
    assert torch.equal(x, given)
    assert [m.training for m in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), random)
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


def test_a_model_in_train_mode_is_traced_in_eval_mode():
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.9), nn.ReLU(), nn.Linear(5, 2)).train()
    assert free_sizes(trace(model, torch.randn(1, 4))) == {"0": 5}


def test_a_model_that_keeps_its_activations_can_be_traced_after_a_call():
    def forward(m, x):
        m.kept = [torch.relu(m.a(x))]
        return m.b(m.kept[0])

    model, x = Net(forward, a=nn.Linear(4, 5), b=nn.Linear(5, 2)), torch.randn(3, 4)
    model(x)
    assert_function_preserved(model, x)
    assert model.kept[0].requires_grad


# ---------------------------------------------------------------------------------------------------------------- cache


def test_a_second_network_of_one_architecture_is_not_exported(exports):
    first, second = mlp(7, 11, 3), randomised(mlp(7, 11, 3), 1)
    assert trace(first) is trace(second)
    assert len(exports) == 1
    trace(mlp(7, 12, 3))
    assert len(exports) == 2


def test_attention_with_2_and_4_heads_is_not_one_architecture(exports):
    x = torch.randn(2, 3, 8)
    for heads in (2, 4):
        trace(Net(lambda m, x: m.a(x, x, x)[0], a=nn.MultiheadAttention(8, heads, batch_first=True)), x)
    assert len(exports) == 2


def test_a_function_with_another_closure_is_another_architecture():
    def net(cut):
        return Net(
            lambda m, x: m.b(torch.cat([m.a(x)[:, :cut].sum(1, keepdim=True), m.a(x)], 1)),
            a=nn.Linear(4, 5),
            b=nn.Linear(6, 2),
        )

    x = torch.randn(3, 4)
    assert free_sizes(trace(net(5), x))["a"] == 5
    assert free_sizes(trace(net(2), x))["a"] == 2


def test_an_unverified_trace_does_not_serve_one_who_asks_for_verification(exports, monkeypatch):
    verified = []
    monkeypatch.setattr("wsgraph.tracing.verify_spec", lambda *_: verified.append(1))
    model = mlp(6, 13, 3)
    trace(model, verify=False)
    assert verified == []
    trace(model)
    trace(model)
    trace(model, verify=False)
    assert (len(verified), len(exports)) == (1, 1)


def test_a_module_that_cannot_be_compared_is_traced_each_time(exports):
    for _ in range(2):
        trace(Opaque(), torch.randn(2, 4))
    assert len(exports) == 2


# --------------------------------------------------------------------------------------------------------------- errors


def test_a_module_without_parameters():
    with pytest.raises(ValueError, match="ReLU has no parameters, so it has no symmetry to find"):
        trace(nn.ReLU())


def test_control_flow_that_depends_on_data(capfd, caplog):
    with pytest.raises(ValueError, match="cannot export Branching, because forward needs the value of a") as error:
        trace(Branching(), torch.randn(2, 4))
    assert "to_graph(model, example_input, spec=Spec(groups=..., params=...))" in str(error.value)
    assert "test_tracing.py, line " in str(error.value)
    assert ": return self.fc(x) if x.sum() > 0 else -self.fc(x)" in str(error.value)
    assert (*capfd.readouterr(), caplog.text) == ("", "", "")  # torch keeps its own account to itself
    assert logging.root.manager.disable == 0


def test_a_submodule_of_what_cannot_be_exported_can_be_traced():
    model = nn.Sequential(mlp(4, 6, 4), Branching())
    with pytest.raises(ValueError, match="trace a submodule"):
        trace(model, torch.randn(2, 4))
    assert free_sizes(trace(model[0], torch.randn(2, 4))) == {"0": 6}


def test_the_spec_offered_instead_works():
    groups = [Group("input", 4, why="network input"), Group("output", 3, why="network output")]
    params = [Param("fc.weight", ("output", "input"), "weight", reads=1), Param("fc.bias", ("output",), "bias")]
    assert to_graph(Branching(), torch.randn(2, 4), spec=Spec(groups, params)).num_nodes == 7


def test_a_wrong_example_input():
    with pytest.raises(ValueError, match=r"Sequential cannot be called with the example input \[\(2, 9\)\]") as error:
        trace(mlp(4, 5, 2), torch.randn(2, 9))
    assert "wsgraph.trace(model, torch.randn(2, ...))" in str(error.value)
    with pytest.raises(ValueError, match=r"wsgraph.trace\(model, torch.randn\(2, ..., dtype=torch.float64\)\)"):
        trace(mlp(4, 5, 2).double(), torch.randn(2, 4))
    with pytest.raises(ValueError, match=r"cannot be called with the example input .*: index out of range"):
        trace(nn.Sequential(nn.Embedding(3, 5), nn.Linear(5, 2)), torch.tensor([[1, 7]]))


def test_a_wrong_symmetry_is_an_error_that_names_the_group(monkeypatch):
    """Were a handler to forget that pooling along neurons orders them, the check would say so."""
    monkeypatch.setattr("wsgraph.ops.spatial.pin_positions", lambda dims: None)
    model = Net(lambda m, x: m.b(nn.functional.avg_pool1d(m.a(x), 2)), a=nn.Linear(4, 6), b=nn.Linear(3, 2))
    with pytest.raises(
        RuntimeError, match=r"permuting group 'a' of Net changes its outputs \(relative error .*pass spec="
    ):
        trace(model, torch.randn(3, 4))
    assert free_sizes(trace(model, torch.randn(3, 4), verify=False)) == {"a": 6}


# ---------------------------------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize(("plan", "norm"), [((1, 1, 2, 2, 2), False), ((2, 2, 3, 3, 3), True)], ids=["VGG11", "VGG16"])
def test_narrow_vggs(plan, norm):
    model = vgg(plan, (2, 4, 8, 8, 8), norm, hidden=6)
    assert len(trace(model).free) == sum(plan) + 2
    assert_function_preserved(model)


def test_a_second_network_of_fifteen_million_weights_costs_no_export(monkeypatch):
    """What makes it fast, counted: no export, and one pass over the weights (seconds are in the speed benchmark)."""
    model = vgg(*VGG16)
    assert sum(p.numel() for p in model.parameters()) > 15_000_000
    assert len(trace(model, verify=False).free) == 15
    monkeypatch.setattr(torch.export, "export", None)
    sums = []
    plain = torch.Tensor.sum
    monkeypatch.setattr(torch.Tensor, "sum", lambda t, *a, **k: sums.append(t.numel()) or plain(t, *a, **k))
    to_graph(vgg(*VGG16), verify=False)
    assert sum(sums) < 1.01 * sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_second_recurrent_network_costs_no_export(monkeypatch, kind):
    def make():
        return Net(lambda m, x: m.out(m.body(x)[0]), body=kind(7, 5, batch_first=True), out=nn.Linear(5, 2))

    x = torch.randn(2, 3, 7)
    spec = trace(make(), x)
    monkeypatch.setattr(torch.export, "export", None)
    other = make()
    other(x + 1)
    assert trace(other, x) is spec
