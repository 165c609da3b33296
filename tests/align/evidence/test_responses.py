"""What neurons do on pictures, as a part of scores."""

import pytest
import torch
from networks import mlp
from torch import nn
from torch.nn.functional import softplus

import align
from align.deep_align import DeepAlignConfig
from align.evidence.responses import Responses
from align.methods.activation_matching import correlations
from align.running.pictures import shown
from wsgraph import EncoderConfig, Permutation, to_graph

SMALL = EncoderConfig(hidden=8, output=8, sweeps=1, messages=8)


def network(norm=True, wide=5):
    layers = [nn.Conv2d(2, wide, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(wide, 6, 3, stride=2)]
    layers += [*([nn.BatchNorm2d(6)] if norm else []), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(6, 3)]
    return nn.Sequential(*layers).double()


def graph(model=None, size=8):
    example = None if size is None else torch.zeros(2, 2, size, size, dtype=torch.float64)
    return to_graph(model or network(), example)


def zeros(spec, pairs=1):
    return {g.name: torch.zeros(pairs, g.size, g.size, dtype=torch.float64) for g in spec.free}


def responses(count=16):
    found = Responses(count).double()
    nn.init.normal_(found.gate.weight)
    return found


def test_terms_by_hand():
    a, b = network(), network()
    part = responses()
    found = part([graph(a).network], [graph(b).network], zeros(graph(a).spec))
    alike = correlations(a.eval(), b.eval(), (graph(a).spec,) * 2, [shown(16, (2, 8, 8)).double()])
    assert set(alike) == set(found)
    for name, c in alike.items():
        noise = c.std(correction=0)
        gamma = softplus(part.gate.weight[0, 0] * noise.log() + part.gate.bias[0])
        torch.testing.assert_close(found[name][0], gamma * c / noise)


def test_equivariance_swap_and_exactness():
    a, b, part = graph(), graph(), responses()
    told = lambda x, y: part([x.network], [y.network], zeros(x.spec))  # noqa: E731
    plain, swapped = told(a, b), told(b, a)
    g, h = Permutation.random(a.spec), Permutation.random(a.spec)
    permuted = told(g.apply(a), h.apply(b))
    for k, s in plain.items():
        assert s.abs().max() > 0.1
        torch.testing.assert_close(permuted[k], s[:, g.maps[k]][:, :, h.maps[k]])
        torch.testing.assert_close(swapped[k], s.mT)
    aligner = align.DeepAlign(DeepAlignConfig(SMALL, pictures=16)).double().eval()
    assert aligner(a, g.apply(a)).permutation == g.inverse()


def test_stacked_pairs_are_as_single_ones():
    part, left, right = responses(), [graph() for _ in range(3)], [graph() for _ in range(3)]
    stacked = part([g.network for g in left], [g.network for g in right], zeros(left[0].spec, 3))
    for k in range(3):
        alone = part([left[k].network], [right[k].network], zeros(left[0].spec))
        for name, s in alone.items():
            torch.testing.assert_close(stacked[name][k], s[0])


def test_nothing_is_added_where_nothing_is_shown():
    part = responses()
    read = to_graph(graph().to_state_dict(), spec=graph().spec)
    pooled = lambda size: graph(  # noqa: E731
        nn.Sequential(nn.Conv2d(2, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 3)).double(),
        size,
    )
    told = lambda a, b: part([a.network], [b.network], zeros(a.spec))  # noqa: E731
    for a, b in ((read, read), (pooled(8), pooled(9))):
        assert all(not s.any() for s in told(a, b).values())
    assert all(s.any() for a, b in ((graph(), read), (read, graph())) for s in told(a, b).values())
    assert told(pooled(8), pooled(None)).keys() == told(pooled(8), pooled(8)).keys()
    seen = part([pooled(8).network], [pooled(8).network], zeros(pooled(8).spec))
    assert all(s.any() for s in seen.values())


def test_a_pair_is_told_the_same_whatever_other_pairs_there_are():
    a, b, part = graph(), graph(), responses()
    unseen = to_graph(a.to_state_dict(), spec=a.spec)
    blank = zeros(a.spec, 2)
    told = part([a.network, unseen.network], [b.network, unseen.network], blank)
    alone = part([a.network], [b.network], zeros(a.spec))
    for name, s in told.items():
        torch.testing.assert_close(s[0], alone[name][0])
        assert not s[1].any()


def test_a_state_dict_is_run_in_the_other_networks_module():
    a, b, example = network(), network(), torch.zeros(2, 2, 8, 8, dtype=torch.float64)
    aligner = align.DeepAlign(DeepAlignConfig(SMALL, pictures=16)).double().eval()
    told = lambda x, y: align.match(x, y, "deep_align", aligner=aligner, example_input=example).scores  # noqa: E731
    expected, state = told(a, b), b.state_dict()
    for found in (told(a, state), {k: s.mT for k, s in told(state, a).items()}):
        for name, s in expected.items():
            torch.testing.assert_close(found[name], s)
    spec = graph(a).spec
    unseen = aligner(to_graph(a.state_dict(), spec=spec), to_graph(state, spec=spec)).scores
    assert all((unseen[name] - s).abs().max() > 0.01 for name, s in expected.items())


def test_networks_of_different_widths():
    a, b = graph(network(wide=5)), graph(network(wide=8))
    blank = {"0": torch.zeros(1, 5, 8, dtype=torch.float64), "3": torch.zeros(1, 6, 6, dtype=torch.float64)}
    found = responses()([a.network], [b.network], blank)
    assert all(found[name].shape == blank[name].shape and found[name].abs().max() > 0.1 for name in blank)


def test_networks_stay_as_they_are_and_random_numbers_too():
    model, part = network(), responses()
    a, b = graph(model), graph()
    before, state = {k: t.clone() for k, t in model.state_dict().items()}, torch.get_rng_state()
    part([a.network], [b.network], zeros(a.spec))
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert all(torch.equal(t, before[k]) for k, t in model.state_dict().items())


@pytest.mark.parametrize("network", [mlp(5, 7, 3), nn.Sequential(nn.Flatten(), mlp(4, 7, 3))])
def test_vectors_and_plain_mlps_are_shown_nothing(network):
    example = torch.zeros(2, 5) if isinstance(network[0], nn.Linear) else torch.zeros(2, 1, 2, 2)
    a = to_graph(network, example).network
    name = a.spec.free[0].name
    assert not responses()([a], [a], {name: torch.zeros(1, 7, 7)})[name].any()


def test_large_pictures_are_few_and_large_networks_see_few(monkeypatch):
    counts = []
    seen = lambda count, shape: counts.append(count) or shown(count, shape)  # noqa: E731
    monkeypatch.setattr("align.evidence.responses.shown", seen)
    pooled = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    for side in (8, 64, 256):
        a = to_graph(pooled, torch.zeros(2, 1, side, side)).network
        Responses(64)([a], [a], {"0": torch.zeros(1, 3, 3)})
    monkeypatch.setattr("align.evidence.responses.LARGE", 1)
    a = to_graph(pooled, torch.zeros(2, 1, 8, 8)).network
    Responses(64)([a], [a], {"0": torch.zeros(1, 3, 3)})
    assert counts == [64, 16, 8, 8]


def test_what_overflows_is_like_nothing():
    a, b = graph(), graph()
    loud = torch.ones(6, 1, 1, 1, dtype=torch.float64).index_fill(0, torch.tensor([2]), 1e300)
    a = a.replace({name: t.detach() * (loud if name == "3.weight" else 1) for name, t in a.tensors.items()})
    told = responses()([a.network], [b.network], zeros(a.spec))
    assert all(s.isfinite().all() for s in told.values())
    assert told["0"].any()


class OnlyTwo(nn.Module):
    """Knows how many samples there are."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(1, 4, 3), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)).view(2, 4, 9).mean(-1))


def test_what_fails_on_pictures_is_aligned_by_its_weights():
    a = to_graph(OnlyTwo(), torch.zeros(2, 1, 5, 5))
    with pytest.warns(UserWarning, match="fail on pictures"):
        found = align.DeepAlign(DeepAlignConfig(SMALL, pictures=16)).eval()(a, a)
    assert found.permutation == Permutation.identity(a.spec)


def test_the_gate_learns():
    aligner = align.DeepAlign(DeepAlignConfig(SMALL, pictures=16)).double()
    sum(s.square().mean() for s in aligner(graph(), graph()).scores.values()).backward()
    assert aligner.responses.gate.bias.grad.abs() > 0


def test_files_keep_it(tmp_path):
    aligner = align.DeepAlign(DeepAlignConfig(SMALL, pictures=16)).double().eval()
    nn.init.normal_(aligner.responses.gate.weight)
    aligner.save_pretrained(tmp_path)
    read = align.DeepAlign.from_pretrained(tmp_path).double()
    a, b = graph(), graph()
    for name, s in aligner(a, b).scores.items():
        torch.testing.assert_close(read(a, b).scores[name], s, rtol=1e-4, atol=1e-4)
    assert align.DeepAlign(DeepAlignConfig(SMALL)).responses is None
    assert align.DeepAlign().responses is not None


@pytest.mark.parametrize("count", [-1, 1])
def test_too_few_are_refused(count):
    with pytest.raises(ValueError, match=f"pictures is {count}"):
        DeepAlignConfig(pictures=count)
