from itertools import pairwise

import pytest
import torch
from networks import Net
from torch import nn

import align
from align.many import STRATEGIES, _Frame
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
