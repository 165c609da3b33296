"""A sweep is what its docstrings say: node by node and edge by edge, in float64."""

from math import prod

import pytest
import torch
from networks import every_edge, randomised, trained
from torch import nn

from wsgraph import Encoder, EncoderConfig, Group, Param, Spec, to_graph
from wsgraph.network import NODE_ROLES
from wsgraph.nn.encoder import FOLLOWING, _kind, lift
from wsgraph.nn.plan import plan_of
from wsgraph.nn.prepare import node_features, prepare
from wsgraph.nn.sweep import Sweep
from wsgraph.taps import tap_basis

HIDDEN, MESSAGES, BASIS = 6, 5, 4


class OneNetwork:
    """The definition, for one network: a state is a list of vectors, one for every node of a group."""

    def __init__(self, graph):
        self.spec, self.tensors, self.plan = graph.spec, graph.tensors, plan_of(graph.spec)

    def sweep(self, module, states, kinds, fixed):
        states = {name: list(h) for name, h in states.items()}
        for step in self.plan.steps:
            target, source = step.block.target, step.block.source or step.block.target
            read, written = (self.features(step, side) for side in (step.read, step.written))
            reading, writing = self.gains(step.read), self.gains(step.written)
            h = gained([module.norm_read(x) for x in states[source]], reading)
            if read:
                h = [x + module.read(p) for x, p in zip(h, read, strict=True)]
            count = len(states[target])
            m = self.messages(module, step, self.edges(step.block), h, module.mix_forward, count, writing)
            t = module.kind_forward[kinds[target]]
            states[target] = [
                update(module.update_forward, x, m[j], t, written and written[j]) for j, x in enumerate(states[target])
            ]
        for step in self.plan.steps[::-1]:
            target, source = step.block.target, step.block.source or step.block.target
            if source in fixed:
                continue
            reading, writing = self.gains(step.read), self.gains(step.written)
            h = gained([module.norm_read(x) for x in states[target]], writing)
            against = ((i, j, w) for j, i, w in self.edges(step.block))
            m = self.messages(module, step, against, h, module.mix_backward, len(states[source]), reading)
            t = module.kind_backward[kinds[source]]
            states[source] = [update(module.update_backward, x, m[i], t) for i, x in enumerate(states[source])]
        return {name: torch.stack(h) for name, h in states.items()}

    def edges(self, block):
        """(target node, source node, taps): a row of weights reads the inputs of its own run."""
        weight, outputs = self.tensors[block.param], self.spec.groups[block.target].size
        inputs = outputs if block.source is None else self.spec.groups[block.source].size
        runs = outputs if block.source is None else block.runs
        rows = weight.reshape(outputs, inputs // runs, -1)
        for j in range(outputs):
            for i in range(inputs // runs):
                yield j, j // (outputs // runs) * (inputs // runs) + i, rows[j, i]

    def gains(self, side):
        """γ / √variance of a norm, rms 1 over the nodes; ``None`` without a norm."""
        found = {self.spec.params[block.param].role: self.tensors[block.param].flatten() for block in side}
        if not found.keys() & {"norm_scale", "variance"}:
            return None
        ratio = (
            found.get("norm_scale", 1) / (found["variance"] + 1e-5).sqrt()
            if "variance" in found
            else found["norm_scale"]
        )
        return ratio / ratio.square().mean().sqrt()

    def messages(self, module, step, ends, h, mix, count, gain):
        """Σ_b Σ_i w̃_jib A_b h_i, times the gain of a norm, normalised over the nodes."""
        functions = tap_basis(step.block.taps, BASIS)
        m = [torch.zeros(MESSAGES, dtype=torch.float64) for _ in range(count)]
        for receiver, sender, taps in ends:
            for b in range(BASIS):
                m[receiver] = m[receiver] + (taps @ functions[:, b]) * (h[sender] @ mix[b])
        m = gained(m, gain)
        return self.normalised(m, self.scale(step.block)) if module.normalise else m

    def normalised(self, m, scale):
        """As if four more nodes had been seen: their mean is zero, their variance that of all channels."""
        n = len(m)
        mean = sum(m) / (n + 4)
        centred = [x - mean for x in m]
        channel = sum(x * x for x in centred) / n
        variance = (n * channel + 4 * sum(channel) / MESSAGES) / (n + 4)
        return [x / (variance + 1e-6 * scale**2).sqrt() for x in centred]

    def scale(self, block):
        """√fan-in · rms(W)."""
        taps = [w for _, _, w in self.edges(block)]
        fan_in = len(taps) / self.spec.groups[block.target].size * prod(block.taps)
        return (fan_in * torch.stack(taps).square().mean()).sqrt()

    def features(self, step, side):
        """One row per node, in units of the message; ``None`` without any parameter."""
        if not side:
            return None
        rows = torch.zeros(self.spec.groups[side[0].target].size, len(NODE_ROLES), dtype=torch.float64)
        for block in side:
            role = self.spec.params[block.param].role
            for j, value in enumerate(self.tensors[block.param].flatten()):
                value = value.sqrt() if role == "variance" else value
                unit = self.scale(step.block) if role in ("bias", "mean", "variance") else 1
                rows[j, NODE_ROLES.index(role)] += value / unit
        return list(rows.asinh())


def gained(vectors, gains):
    return vectors if gains is None else [x * g for x, g in zip(vectors, gains, strict=True)]


def update(module, h, m, t, p=None):
    z = module.state.weight @ module.norm(h) + module.message.weight @ m + t
    if p is not None:
        z = z + module.params.weight @ p
    return h + module.out(module.activation(z))


def graphs():
    models = [trained(randomised(every_edge(), seed)).double() for seed in (0, 1)]
    return [to_graph(m, torch.randn(2, 2, 4, 4, dtype=torch.float64)) for m in models]


@pytest.mark.parametrize("normalise", [True, False])
@torch.no_grad()
def test_a_sweep_is_what_single_nodes_and_edges_make_of_it(normalise):
    pair = graphs()
    groups = pair[0].spec.groups
    module = Sweep(HIDDEN, MESSAGES, BASIS, len(groups), "silu", normalise).double()
    for p in module.parameters():
        p.add_(0.3 * torch.randn_like(p))  # norms away from the 0 and 1 of initialisation
    states = {name: torch.randn(2, g.size, HIDDEN, dtype=torch.float64) for name, g in groups.items()}
    kinds = {name: k for k, name in enumerate(groups)}
    steps = prepare(pair[0].spec, [g.network for g in pair], BASIS, torch.float64)
    found = module(steps, states, kinds, {"input"})
    for k, graph in enumerate(pair):
        expected = OneNetwork(graph).sweep(module, {name: h[k] for name, h in states.items()}, kinds, {"input"})
        for name, h in expected.items():
            torch.testing.assert_close(found[name][k], h, rtol=0, atol=1e-10)


def test_the_order_of_a_sweep_and_who_has_which_parameters():
    plan = plan_of(graphs()[0].spec)
    assert [(s.block.param, s.block.source, s.block.target) for s in plan.steps] == [
        ("stem.weight", "input", "stem"),
        ("up.weight", "stem", "up"),
        ("own.weight", None, "up"),
        ("mid.weight", "up", "mid"),
        ("runs.weight", "mid", "runs"),
        ("down.weight", "runs", "stem"),
        ("wide.weight", "stem", "wide"),
        ("head.weight", "wide", "output"),
    ]
    first, before_last = plan.steps[0], plan.steps[-2]
    norm = ["norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"]
    assert [b.param for b in first.written] == ["stem.bias", *norm]
    assert [b.param for b in before_last.read] == ["front.weight", "front.bias"]
    assert [b.param for b in plan.loose] == ["gate"]


@torch.no_grad()
def test_an_encoder_starts_sweeps_lifts_and_centres():
    graph = graphs()[0]
    sizes = {"hidden": HIDDEN, "output": 7, "sweeps": 2, "messages": MESSAGES, "basis": BASIS}
    encode = Encoder(EncoderConfig(**sizes, codes="grid")).double()
    one, groups = OneNetwork(graph), graph.spec.groups
    kinds = {name: FOLLOWING.index(g.activation) for name, g in groups.items()}
    states = {name: [encode.start[kinds[name]]] * g.size for name, g in groups.items()}
    given = torch.randn(2, HIDDEN, dtype=torch.float64)
    states["input"] = list(given)
    states["output"] = [h + encode.place(index_code(k)) for k, h in enumerate(states["output"])]
    role = NODE_ROLES.index(graph.spec.params["gate"].role)
    gate = graph.tensors["gate"].flatten().asinh()
    states["stem"] = [h + g * encode.loose.weight[:, role] for h, g in zip(states["stem"], gate, strict=True)]
    for sweep in encode.sweeps:
        states = one.sweep(sweep, states, kinds, {"input"})
        inside = [states[name].unflatten(0, (2, -1)).mean(1) for name in ("mid", "runs")]
        states["mid.runs"] = states["mid.runs"] + sum(inside)
    z = {name: encode.out(encode.norm(h)) for name, h in states.items()}
    expected = torch.cat([z[name] - z[name].mean(0) for name in groups])
    torch.testing.assert_close(encode(graph, inputs={"input": given}), expected, rtol=0, atol=1e-10)


def index_code(k):
    """Of an output: no place on a grid, sines and cosines of its index."""
    angle = k * torch.logspace(0, -3, 8, dtype=torch.float64)
    return torch.cat([torch.zeros(24, dtype=torch.float64), angle.sin(), angle.cos()])


def test_functions_without_an_embedding_of_their_own_share_the_last():
    assert _kind(Group("g", 3, activation="gelu")) == FOLLOWING.index("gelu")
    assert _kind(Group("g", 3, activation="mish")) == len(FOLLOWING)


def test_a_single_neuron_is_not_centred_away():
    encode = Encoder(EncoderConfig(hidden=HIDDEN, output=7, sweeps=1, messages=MESSAGES))
    assert encode(to_graph(nn.Sequential(nn.Linear(3, 1), nn.ReLU(), nn.Linear(1, 2))))[3].abs().max() > 1e-3


def test_lifting_goes_from_the_inside_out():
    groups = [Group("a", 1), Group("b", 2, parent="a"), Group("c", 4, parent="b")]
    states = {"a": torch.zeros(1, 1), "b": torch.tensor([[10.0], [30.0]]), "c": torch.arange(4.0)[:, None]}
    lifted = lift(Spec(groups, []), states)
    assert {name: h.flatten().tolist() for name, h in lifted.items()} == {
        "a": [21.5],
        "b": [10.5, 32.5],
        "c": [0, 1, 2, 3],
    }


def test_parameters_of_one_role_add_up():
    spec = Spec([Group("g", 3)], [Param("one", ("g",), "bias"), Param("two", ("g",), "bias")])
    tensors = {"one": torch.tensor([1.0, 2.0, 3.0]), "two": torch.tensor([10.0, 20.0, 30.0])}
    features = node_features(spec, spec.blocks, tensors, torch.tensor(2.0), torch.float32)
    torch.testing.assert_close(features[:, NODE_ROLES.index("bias")], torch.tensor([5.5, 11.0, 16.5]).asinh())
