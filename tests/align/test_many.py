from itertools import pairwise

import pytest
import torch
from networks import Net
from torch import nn

import align
from align.deep_align import DeepAlign
from align.many import STRATEGIES, _Frame
from align.score_frame import ScoreFrame
from wsgraph import Permutation, to_graph
from wsgraph.testing import random_graph


def networks(count=4):
    """Noisy permuted copies of one network, and the permutations that were planted."""
    base = to_graph(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 3)))
    planted = [Permutation.random(base.spec) for _ in range(count)]
    noisy = [base.replace({k: t + 0.05 * torch.randn_like(t) for k, t in base.tensors.items()}) for _ in planted]
    return [p.apply(n) for p, n in zip(planted, noisy, strict=True)], planted


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_planted_permutations_are_recovered_between_all_pairs(strategy):
    graphs, planted = networks()
    universe = align.match_many(graphs, strategy)
    for i in range(4):
        for j in range(4):
            assert universe.between(i, j) == planted[i] @ planted[j].inverse()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_cycles_are_consistent(strategy):
    graphs = [
        random_graph(0).replace({k: torch.randn_like(t) for k, t in random_graph(0).tensors.items()}) for _ in range(3)
    ]
    universe = align.match_many(graphs, strategy)
    assert universe.between(0, 1) @ universe.between(1, 2) == universe.between(0, 2)
    assert universe.between(0, 1) == universe.between(1, 0).inverse()


@pytest.mark.parametrize("round_", ["round_by_network", "round_by_group"])
def test_agreement_never_falls(round_):
    base = to_graph(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 3)))
    graphs = [base.replace({k: torch.randn_like(t) for k, t in base.tensors.items()}) for _ in range(4)]
    frame = _Frame(graphs, [Permutation.identity(base.spec)] * 4, torch.Generator().manual_seed(0))
    values = [frame.agreement()]
    for _ in range(4):
        getattr(frame, round_)()
        values.append(frame.agreement())
    assert values[1] > values[0]
    assert all(b >= a - 1e-4 * abs(a) for a, b in pairwise(values))


def test_tied_weights_agree_once():
    tied = Net(
        lambda m, x: m.c(torch.relu(m.b(torch.relu(m.a(x))))), a=nn.Linear(4, 4), b=nn.Linear(4, 4), c=nn.Linear(4, 2)
    )
    tied.b.weight = tied.a.weight
    graph = to_graph(tied, torch.randn(2, 4))
    frame = _Frame([graph, graph], [Permutation.identity(graph.spec)] * 2, None)
    expected = sum(float(p.detach().double().square().sum()) for p in tied.parameters())
    assert frame.agreement() == pytest.approx(expected)


def test_universe_agrees_more_than_a_reference():
    base = to_graph(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 3)))
    graphs = [base.replace({k: torch.randn_like(t) for k, t in base.tensors.items()}) for _ in range(4)]
    agreement = {s: _Frame(graphs, align.match_many(graphs, s).permutations, None).agreement() for s in STRATEGIES}
    assert agreement["universe"] > agreement["reference"]
    assert agreement["merge_many"] > agreement["reference"]


def test_models_are_merged_in_the_universe():
    graphs, _ = networks()
    template = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 3))
    models = [g.to_module(template) for g in graphs]
    merged = align.merge(*align.match_many(models).apply(models))
    x = torch.randn(20, 6)
    outputs = torch.stack([m(x) for m in models])
    aligned, naive = ((m(x) - outputs.mean(0)).square().mean() for m in (merged, align.merge(*models)))
    assert aligned < 0.1 * naive


def test_unknown_strategy_and_lone_network_are_named():
    graphs, _ = networks(2)
    with pytest.raises(ValueError, match="strategy 'magic' is not one of"):
        align.match_many(graphs, "magic")
    with pytest.raises(ValueError, match="at least two networks, got 1"):
        align.match_many(graphs[:1])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_a_seed_too_the_answer_is_the_same_and_nothing_is_drawn(strategy):
    graphs, _ = networks()
    random = torch.get_rng_state()
    first, again, zero = (align.match_many(graphs, strategy, seed=seed) for seed in (None, None, 0))
    assert torch.equal(torch.get_rng_state(), random)
    assert first.permutations == again.permutations == zero.permutations


def strangers(count=4):
    """Different networks of one architecture, in float64: no scores tie, so laws hold for hard answers."""
    base = to_graph(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 3)).double())
    return [base.replace({k: torch.randn_like(t) for k, t in base.tensors.items()}) for _ in range(count)]


@pytest.fixture(scope="module")
def aligner():
    return DeepAlign().double()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_learned_matches_follow_permuted_networks(strategy, aligner):
    graphs = strangers()
    planted = [Permutation.random(g.spec) for g in graphs]
    plain = align.match_many(graphs, strategy, method="deep_align", aligner=aligner)
    moved = align.match_many(
        [p.apply(g) for p, g in zip(planted, graphs, strict=True)], strategy, method="deep_align", aligner=aligner
    )
    for i in range(4):
        for j in range(4):
            assert moved.between(i, j) == planted[i] @ plain.between(i, j) @ planted[j].inverse()


@pytest.mark.parametrize("strategy", ["merge_many", "universe"])
def test_learned_matches_do_not_depend_on_the_order_of_networks(strategy, aligner):
    graphs, order = strangers(), [2, 0, 3, 1]
    listed = align.match_many(graphs, strategy, method="deep_align", aligner=aligner)
    shuffled = align.match_many([graphs[i] for i in order], strategy, method="deep_align", aligner=aligner)
    for i in range(4):
        for j in range(4):
            assert shuffled.between(i, j) == listed.between(order[i], order[j])


def test_learned_matches_to_the_first_do_not_depend_on_the_order_of_the_others(aligner):
    graphs = strangers()
    listed = align.match_many(graphs, "reference", method="deep_align", aligner=aligner)
    turned = align.match_many([graphs[0], *graphs[:0:-1]], "reference", method="deep_align", aligner=aligner)
    assert listed.permutations == (turned.permutations[0], *turned.permutations[:0:-1])


def test_two_networks_are_matched_as_a_pair(aligner):
    a, b = strangers(2)
    for strategy in STRATEGIES:
        universe = align.match_many([a, b], strategy, method="deep_align", aligner=aligner)
        assert universe.between(0, 1) == aligner(a, b).permutation


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_learned_aligner_embeds_each_network_once(strategy, aligner, monkeypatch):
    embedded = []
    original = aligner.encoder.embed_views

    def counting(networks, views, inputs=None):
        embedded.extend(networks)
        return original(networks, views, inputs)

    monkeypatch.setattr(aligner.encoder, "embed_views", counting)
    align.match_many(graphs := strangers(), strategy, method="deep_align", aligner=aligner)
    assert [id(n) for n in embedded] == [id(g.network) for g in graphs]


def test_learned_agreement_never_falls_and_ends_above_the_reference(aligner):
    frame = ScoreFrame(strangers(5), aligner)
    values = [frame.agreement()]
    while frame.round():
        values.append(frame.agreement())
    assert len(values) > 1
    assert all(b > a for a, b in pairwise(values))


def test_what_the_learned_aligner_cannot_do_at_once_is_told(aligner):
    graphs = strangers(5)
    with pytest.warns(UserWarning, match="universe did not converge in 1 sweeps; raise max_sweeps"):
        assert not align.match_many(graphs, method="deep_align", aligner=aligner, max_sweeps=1).converged
    wider = to_graph(nn.Sequential(nn.Linear(6, 13), nn.ReLU(), nn.Linear(13, 10), nn.ReLU(), nn.Linear(10, 3)))
    with pytest.raises(ValueError, match=r"'0.weight' is \(12, 6\) in the first and \(13, 6\) in the second"):
        align.match_many([*graphs, wider], method="deep_align", aligner=aligner)


def test_learned_matches_recover_heads_and_what_is_in_them(aligner):
    layer = nn.TransformerEncoderLayer(8, 2, 6, dropout=0.0, batch_first=True).double()
    base = to_graph(layer, torch.randn(2, 3, 8).double())
    planted = [Permutation.random(base.spec) for _ in range(3)]
    universe = align.match_many([p.apply(base) for p in planted], method="deep_align", aligner=aligner)
    assert any(group.parent for group in base.spec.free)
    for i in range(3):
        assert universe.between(0, i) == planted[0] @ planted[i].inverse()
