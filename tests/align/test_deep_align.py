"""The laws of F(a, b), on random architectures and random untrained parameters."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import mlp
from scipy.optimize import linear_sum_assignment
from torch import nn
from torch.overrides import TorchFunctionMode
from torch_geometric.data import Batch

import align
from align import DeepAlign, DeepAlignConfig
from align.testing import assert_equivariant, assert_exact, assert_swap
from wsgraph import EncoderConfig, Permutation, to_graph
from wsgraph.testing import Residual, random_graph

SEEDS = st.integers(0, 60)
SMALL = EncoderConfig(hidden=16, output=24, messages=16, sweeps=2)


def aligner(dtype=torch.float64, **kwargs):
    torch.manual_seed(1)
    encoder = EncoderConfig(**({"hidden": 16, "output": 24, "messages": 16, "sweeps": 2} | kwargs))
    return DeepAlign(DeepAlignConfig(encoder=encoder)).to(dtype).eval()


def two_networks(seed):
    """Two networks of one random architecture, unrelated."""
    a = random_graph(seed)
    b = a.replace({k: t + torch.randn_like(t) if t.is_floating_point() else t for k, t in a.tensors.items()})
    return a, b


@given(seed=SEEDS)
@settings(max_examples=12)
def test_equivariance(seed):
    assert_equivariant(aligner(), *two_networks(seed))


@given(seed=SEEDS)
@settings(max_examples=12)
def test_swapping_the_networks_inverts_the_answer(seed):
    a, b = two_networks(seed)
    f = aligner()
    assert_swap(f, a, b)
    forth, back = f(a, b), f(b, a)
    for name in forth.scores:
        torch.testing.assert_close(back.soft().maps[name], forth.soft().maps[name].T)


@given(seed=SEEDS)
@settings(max_examples=12)
def test_exact_on_a_permuted_copy(seed):
    assert_exact(aligner(), random_graph(seed))


def vgg():
    channels, layers = 3, []
    for width in (64, 128, 256, 512):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
        channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * 4, 512), nn.ReLU(), nn.Linear(512, 10))


def resnet():
    blocks = [Residual(3, 64, norm=True), Residual(64, 64, norm=True), Residual(64, 128, norm=True)]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


WIDE = {
    "mlp": (lambda: mlp(784, 512, 512, 10), (2, 784)),
    "cnn": (
        lambda: nn.Sequential(nn.Conv2d(3, 128, 5), nn.ReLU(), nn.Flatten(), nn.Linear(128 * 16, 10)),
        (2, 3, 8, 8),
    ),
    "vgg": (vgg, (2, 3, 32, 32)),
    "resnet": (resnet, (2, 3, 8, 8)),
}


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("make_aligner", [DeepAlign, lambda: aligner(torch.float32)], ids=["bundled", "untrained"])
def test_exact_on_wide_networks_in_float32(name, make_aligner):
    make, shape = WIDE[name]
    graph = to_graph(make(), torch.randn(shape), verify=False)
    assert_exact(make_aligner(), graph)


def test_batch_of_different_architectures_equals_one_by_one():
    pairs = [two_networks(seed) for seed in (0, 1, 0, 2, 0)]
    f = aligner()
    together = f([a for a, _ in pairs], [b for _, b in pairs])
    assert isinstance(together, list)
    for (a, b), batched in zip(pairs, together, strict=True):
        single = f(a, b)
        assert batched.permutation == single.permutation
        for name, s in single.scores.items():
            torch.testing.assert_close(batched.scores[name], s)


def test_a_pyg_batch_gives_a_list():
    pairs = [two_networks(seed) for seed in (0, 1)]
    a, b = (Batch.from_data_list(list(side)) for side in zip(*pairs, strict=True))
    assert [x.permutation for x in aligner()(a, b)] == [aligner()(x, y).permutation for x, y in pairs]


def test_identical_neurons_still_give_a_permutation():
    model = mlp(5, 6, 3).double()
    with torch.no_grad():
        model[0].weight[1:4] = model[0].weight[0]
        model[0].bias[1:4] = model[0].bias[0]
        model[2].weight[:, 1:4] = model[2].weight[:, :1]
    graph = to_graph(model)
    alignment = aligner()(graph, Permutation.random(graph.spec).apply(graph))
    assert sorted(alignment.maps["0"].tolist()) == list(range(6))
    assert alignment.distance < 1e-6


def test_training_mode_is_differentiable_and_reaches_every_parameter():
    a, b = two_networks(0)
    f = aligner().train()
    soft = f(a, b).soft(temperature=0.5)
    loss = sum((x - y).square().sum() for x, y in zip(soft.apply(b).tensors.values(), a.tensors.values(), strict=True))
    loss.backward()
    for name, p in f.named_parameters():
        if "loose" not in name and "read.weight" not in name:  # nothing to act on in this network
            assert p.grad is not None, name
            assert torch.isfinite(p.grad).all(), name
    assert f.s.grad.abs() > 0


def test_eval_mode_keeps_no_graph():
    a, b = two_networks(0)
    assert not any(s.requires_grad for s in aligner()(a, b).scores.values())


def test_different_widths_give_a_partial_matching():
    wide, narrow = to_graph(mlp(5, 9, 7, 3)), to_graph(mlp(5, 6, 7, 3))
    alignment = DeepAlign()(wide, narrow)
    pairs = alignment.pairs["0"]
    assert pairs.shape == (6, 2)
    assert len(set(pairs[:, 0].tolist())) == len(set(pairs[:, 1].tolist())) == 6
    assert int((alignment.maps["0"] == -1).sum()) == 3
    with pytest.raises(ValueError, match=r"different widths.*\.pairs"):
        _ = alignment.permutation
    back = DeepAlign()(narrow, wide)
    assert {tuple(p) for p in back.pairs["0"].tolist()} == {(j, i) for i, j in pairs.tolist()}


def test_a_sub_network_is_found_inside_a_wider_one():
    small = mlp(20, 12, 5)
    wide = mlp(20, 16, 5)
    where = torch.randperm(16)[:12]
    with torch.no_grad():
        wide[0].weight[where], wide[0].bias[where] = small[0].weight, small[0].bias
        wide[2].weight[:, where] = small[2].weight
        rest = torch.tensor([i for i in range(16) if i not in where])
        wide[2].weight[:, rest] *= 0.1
        wide[0].weight[rest] *= 0.1
    pairs = DeepAlign()(to_graph(small), to_graph(wide)).pairs["0"]
    hits = (where[pairs[:, 0]] == pairs[:, 1]).float().mean()
    assert hits >= 0.75


def test_other_architectures_are_refused_by_name():
    a, b = to_graph(mlp(5, 6, 3)), to_graph(mlp(4, 6, 3))
    with pytest.raises(ValueError, match=r"'0.weight' is \(6, 5\) in the first and \(6, 4\) in the second"):
        DeepAlign()(a, b)


def test_what_is_no_pair_of_graphs_is_refused():
    model = mlp(5, 6, 3)
    with pytest.raises(TypeError, match=r"expected a WeightGraph or several, got Sequential; pass to_graph\(model\)"):
        DeepAlign()(model, model)
    with pytest.raises(TypeError, match="got Sequential; pass to_graph"):
        DeepAlign()([model], [model])
    with pytest.raises(ValueError, match="1 networks a but 2 networks b; expected pairs"):
        DeepAlign()([to_graph(model)], [to_graph(model)] * 2)


def test_default_aligner_is_deterministic_and_ready():
    torch.manual_seed(7)
    first, state = DeepAlign(), torch.get_rng_state()
    torch.manual_seed(7)
    assert torch.equal(state, torch.get_rng_state())  # constructing it does not disturb the user's randomness
    second = DeepAlign()
    assert not first.training
    for p, q in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(p, q)


def test_pretrained_round_trip(tmp_path, capsys):
    f = aligner(torch.float32)
    f.save_pretrained(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} >= {"model.safetensors", "config.json"}
    g = DeepAlign.from_pretrained(tmp_path)
    assert g.config == f.config
    assert not g.training
    for (name, p), q in zip(f.named_parameters(), g.parameters(), strict=True):
        assert torch.equal(p, q), name


def test_runs_under_autocast():
    a, b = two_networks(0)
    with torch.autocast("cpu", torch.bfloat16):
        assert aligner(torch.float32)(a, b).permutation.hard


@pytest.mark.filterwarnings("ignore::UserWarning")  # the compiler's own notices about its internals
def test_compiles():
    a, _ = two_networks(0)
    f = aligner(torch.float32)
    compiled = torch.compile(f.encoder, backend="aot_eager")
    torch.testing.assert_close(compiled(a), f.encoder(a))


class NoDefaultDevice(TorchFunctionMode):
    """Fails when a tensor is created without saying where: on a GPU it would land on the CPU."""

    FACTORIES = tuple(
        getattr(torch, name)
        for name in [
            "zeros", "ones", "empty", "full", "arange", "eye", "tensor",
            "rand", "randn", "randint", "randperm", "linspace", "logspace", "as_tensor",
        ]
    )  # fmt: skip

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in self.FACTORIES and kwargs.get("device") is None:
            raise AssertionError(f"{func.__name__}{args} without a device")
        return func(*args, **kwargs)


def placement_graphs():
    model = nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 5, 3, groups=5), nn.Flatten(), nn.Linear(80, 6),
        nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3),
    )  # fmt: skip
    model.requires_grad_(False)  # a gradient cannot come back from the meta device to weights on the CPU
    return [to_graph(model, torch.randn(2, 3, 8, 8)) for _ in range(2)]


def test_whole_differentiable_path_runs_on_the_meta_device():
    a, b = (g.to("meta") for g in placement_graphs())
    f = aligner(torch.float32).to("meta").train()
    out = f(a, b).soft().apply(b)
    total = sum(t.sum() for t in out.tensors.values() if t.is_floating_point())
    total.backward()
    assert all(p.grad is None or p.grad.is_meta for p in f.parameters())
    assert f.s.grad.is_meta


def test_no_tensor_is_created_on_the_default_device():
    a, b = placement_graphs()
    f = aligner(torch.float32).train()
    with NoDefaultDevice():
        soft = f(a, b).soft()
        sum(m.sum() for m in soft.maps.values()).backward()
    with pytest.raises(AssertionError, match="without a device"), NoDefaultDevice():
        torch.zeros(2)


def simulating_encoder(probes):
    """Parameters by hand: one sweep computes relu(W h + b) for N probes, as the paper's proposition has it."""
    n = probes.shape[0]
    f = DeepAlign(DeepAlignConfig(encoder=EncoderConfig(n, n, 1, n, 1, activation="relu", normalise=False))).double()
    for p in f.encoder.parameters():
        nn.init.zeros_(p)
    sweep = f.encoder.sweeps[0]
    eye = torch.eye(n, dtype=torch.float64)
    with torch.no_grad():
        sweep.mix_forward[0] = eye
        sweep.update_forward.message.weight[:n] = eye
        sweep.update_forward.out.weight[:, :n] = eye
        f.encoder.out.weight.copy_(eye)
    return f.eval()


def test_the_encoder_can_simulate_activation_matching():
    """With bias-free layers no feature transform stands between parameters and activations: equality is exact."""
    probes = torch.randn(16, 12, dtype=torch.float64)
    a, b = (
        nn.Sequential(
            nn.Linear(12, 9, bias=False), nn.ReLU(), nn.Linear(9, 8, bias=False), nn.ReLU(), nn.Linear(8, 3, bias=False)
        ).double()
        for _ in range(2)
    )
    f = simulating_encoder(probes)
    ga, gb = to_graph(a), to_graph(b)
    embeddings = [f.encoder.embed([g.network], inputs={"input": probes.T}) for g in (ga, gb)]
    hidden = {"0": 2, "2": 4}  # group → number of layers up to and including its ReLU
    for name, depth in hidden.items():
        acts = [m[:depth](probes).detach() for m in (a, b)]  # [probes, neurons]
        for e, h in zip(embeddings, acts, strict=True):
            torch.testing.assert_close(e[name].detach(), h.T)
        x, y = (h.T / h.T.norm(dim=1, keepdim=True).clamp_min(1e-12) for h in acts)
        expected = linear_sum_assignment((x @ y.T).numpy(), maximize=True)[1]
        ea, eb = ({k: v / v.norm(dim=1, keepdim=True).clamp_min(1e-12) for k, v in e.items()} for e in embeddings)
        got = align.Alignment(ga, gb, {name: (ea[name] @ eb[name].T).detach()}).maps[name]
        np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize(("codes", "same"), [("grid", True), ("spectral", False)])
def test_only_singular_vectors_are_drawn_with_other_signs(codes, same):
    """Training on places with random signs would learn from other places than those of an answer."""
    a, b = to_graph(mlp(6, 8, 4)), to_graph(mlp(6, 8, 4))
    f = aligner(torch.float32, codes=codes)
    drawn = f.stacked_scores([a], [b], torch.Generator().manual_seed(3))
    answered = f.train().stacked_scores([a], [b])
    assert all(torch.equal(drawn[g], answered[g]) for g in answered) == same
