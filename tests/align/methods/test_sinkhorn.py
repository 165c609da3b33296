import pytest
import torch
from networks import mlp
from torch import nn
from torch.nn import functional as F

import align
from align.methods.objective import Best, LineLoss
from align.methods.sinkhorn import _initial, sinkhorn_rebasin
from wsgraph import Permutation, to_graph, trace


def cnn():
    return nn.Sequential(
        nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 10), nn.ReLU(),
        nn.Linear(10, 3),
    )  # fmt: skip


@pytest.mark.parametrize("gradient", ["unrolled", "implicit"])
@pytest.mark.parametrize(("make", "shape"), [(lambda: mlp(8, 14, 12, 4), (8,)), (cnn, (2, 6, 6))], ids=["mlp", "cnn"])
def test_planted_permutations_are_recovered_10_of_10(make, shape, gradient):
    quick = {"iterations": 25, "lr": 1.0, "projections": 8}
    recovered = 0
    for seed in range(10):
        torch.manual_seed(seed)
        a = make()
        spec = trace(a, torch.randn(2, *shape))
        g = Permutation.random(spec)
        graphs = to_graph(a, spec=spec), to_graph(g.apply(a), spec=spec)
        found = align.match(*graphs, "sinkhorn", cost="l2", seed=seed, gradient=gradient, **quick)
        recovered += found.permutation == g.inverse()
    assert recovered == 10


@pytest.mark.parametrize("cost", ["rnd", "mid", "l2"])
@pytest.mark.parametrize("gradient", ["unrolled", "implicit"])
def test_every_cost_finds_a_lower_barrier(pair, cost, gradient):
    a, b, data = pair
    found = align.match(a, b, "sinkhorn", data=data, cost=cost, gradient=gradient, iterations=60, seed=0)
    assert found.converged
    naive, aligned = (float(align.barrier(a, m, data=data, points=5)) for m in (b, found.apply(b)))
    assert aligned < naive / 2


def test_the_best_hard_permutation_seen_is_returned(pair):
    a, b, data = pair
    line = LineLoss(a, b, trace(a), F.cross_entropy, data)
    start = align.match(a, b, "weight_matching", seed=0)
    found = sinkhorn_rebasin(a, b, data=data, init=start, iterations=5, lr=50.0)  # such steps ruin anything
    assert line.hard(found.permutation) <= line.hard(start.permutation)


@pytest.mark.parametrize("n", [8, 128, 512])
def test_a_permutation_as_start_is_not_lost_at_any_width(n):
    a = to_graph(nn.Sequential(nn.Linear(2, n), nn.ReLU(), nn.Linear(n, 2)))
    g = Permutation.random(a.spec)
    logits = _initial(a, align.Alignment(a, a, maps=g.maps), None)
    soft = align.Alignment(a, a, {k: z.detach() for k, z in logits.items()}).soft()
    kept = soft.maps["0"][torch.arange(n), g.maps["0"]]
    assert 0.7 < float(kept.min()) < float(kept.max()) < 0.8


@pytest.mark.parametrize("n", [8, 128])
def test_scores_as_start_are_sharpened_but_not_changed(n):
    a = to_graph(nn.Sequential(nn.Linear(2, n), nn.ReLU(), nn.Linear(n, 2)))
    scores = {"0": 0.1 * torch.randn(n, n)}
    logits = _initial(a, align.Alignment(a, a, scores), None)["0"].detach()
    ratio = logits / scores["0"]
    torch.testing.assert_close(ratio, torch.full_like(ratio, float(ratio[0, 0])))
    assert float(ratio[0, 0]) > 1
    sharp = {"0": 100 * scores["0"]}
    assert torch.equal(_initial(a, align.Alignment(a, a, sharp), None)["0"].detach(), sharp["0"])


def test_soft_loss_is_on_the_line(pair):
    a, b, (x, y) = pair
    line = LineLoss(a, b, trace(a), F.cross_entropy, (x, y))
    for weight, model in ((1.0, a), (0.0, b)):
        torch.testing.assert_close(line(line.right, weight, (x, y)), F.cross_entropy(model(x), y))
    identity = Permutation.identity(line.spec)
    expected = F.cross_entropy(align.merge(a, b)(x), y).detach()
    assert line.hard(identity) == pytest.approx(float(expected), rel=1e-4)


def test_costs_differ_in_where_they_look_on_the_line(pair, monkeypatch):
    a, b, data = pair
    weights = []
    loss = LineLoss.__call__
    monkeypatch.setattr(LineLoss, "__call__", lambda self, t, w, batch: weights.append(w) or loss(self, t, w, batch))
    align.match(a, b, "sinkhorn", data=data, cost="mid", iterations=40, seed=0)
    assert weights == [0.5] * 40
    weights.clear()
    align.match(a, b, "sinkhorn", data=data, cost="rnd", iterations=40, seed=0)
    assert len(set(weights)) == 40
    assert 0 <= min(weights) < 0.2
    assert 0.8 < max(weights) <= 1


@pytest.mark.parametrize("form", ["pair", "list of batches", "list of two batches"])
def test_stream_of_random_batches(form, pair):
    a, b, (x, y) = pair
    data = {"pair": (x, y), "list of batches": list(zip(x.split(50), y.split(50), strict=True))}.get(
        form, [(x[:99], y[:99]), (x[99:], y[99:])]
    )
    stream = LineLoss(a, b, trace(a), F.cross_entropy, data).stream(32, torch.Generator().manual_seed(0))
    rows = {tuple(row.tolist()): int(t) for row, t in zip(x, y, strict=True)}
    for _ in range(8):
        for row, target in zip(*next(stream), strict=True):
            assert rows[tuple(row.tolist())] == int(target)


def test_integer_inputs_stay_integers():
    models = [nn.Sequential(nn.Embedding(9, 6), nn.ReLU(), nn.Flatten(), nn.Linear(18, 2)) for _ in range(2)]
    x, y = torch.randint(9, (40, 3)), torch.randint(2, (40,))
    found = align.match(*models, "sinkhorn", data=(x, y), example_input=x[:2], iterations=30, seed=0)
    assert found.permutation.hard


def test_used_up_iterators_are_refused(pair):
    a, b, (x, y) = pair
    batches = iter([(x, y)])
    with pytest.raises(ValueError, match="data is empty; an iterator is used up"):
        align.match(a, b, "sinkhorn", data=batches, iterations=5)


def test_not_converged_names_the_knobs(pair):
    a, _, data = pair
    with pytest.warns(UserWarning, match="1 Sinkhorn iterations found nothing better .* raise iterations or lr"):
        found = align.match(a, a, "sinkhorn", data=data, iterations=1, lr=1e-9, seed=0)
    assert not found.converged


def test_equal_networks_need_no_warning(pair):
    found = align.match(pair[0], pair[0], "sinkhorn", cost="l2", iterations=3, lr=1e-9, seed=0)
    assert found.distance == 0


def test_best_keeps_the_lowest():
    best = Best()
    spec = to_graph(mlp(2, 3, 2)).spec
    p, q = Permutation.identity(spec), Permutation.identity(spec)
    best.offer(p, float("nan"))
    best.offer(q, 2.0)
    best.offer(p, 3.0)
    assert best.permutation is q
    assert best.loss == 2


def test_errors(pair):
    a, b, data = pair
    with pytest.raises(ValueError, match=r"cost 'l1' is not one of \('rnd', 'mid', 'l2'\)"):
        align.match(a, b, "sinkhorn", data=data, cost="l1")
    with pytest.raises(ValueError, match="gradient 'exact' is not one of"):
        align.match(a, b, "sinkhorn", data=data, gradient="exact")
