from itertools import permutations

import pytest
import torch
from networks import Net, cnn, mlp, resnet20, trained, vgg
from torch import nn

import align
from align.methods import weight_matching as module
from align.methods.weight_matching import Ascent, units, weight_matching
from wsgraph import Group, Param, Permutation, Spec, to_graph, trace
from wsgraph.testing import random_graph


def quiet(**_):
    """No progress."""


def redrawn(graph, seed):
    """The same architecture with other weights, norm statistics away from their initial values."""
    generator = torch.Generator().manual_seed(seed)
    return graph.replace(
        {
            k: torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t.dtype)
            if t.is_floating_point()
            else t
            for k, t in graph.tensors.items()
        }
    )


def rnn():
    return Net(lambda m, x: m.head(m.rnn(x)[0][:, -1]), rnn=nn.RNN(3, 9, batch_first=True), head=nn.Linear(9, 2))


ARCHITECTURES = {
    "mlp": (lambda: mlp(12, 24, 20, 16, 5), (12,)),
    "cnn": (cnn, (3, 8, 8)),
    "vgg": (lambda: trained(vgg((1, 1, 2, 2, 2), (4, 8, 8, 8, 8), hidden=16)).eval(), (3, 32, 32)),
    "resnet20": (lambda: resnet20(4), (3, 8, 8)),
    "one group on two axes": (rnn, (5, 3)),
    "depthwise": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3, groups=6), nn.ReLU(), nn.Flatten(), nn.Linear(96, 3)
        ),
        (2, 8, 8),
    ),
    "single neurons": (lambda: mlp(3, 1, 4, 1, 2), (3,)),
}


@pytest.fixture(scope="module", params=ARCHITECTURES)
def graph(request):
    make, shape = ARCHITECTURES[request.param]
    torch.manual_seed(0)
    return to_graph(make(), torch.randn(2, *shape))


def test_planted_permutations_are_recovered_20_of_20(graph):
    recovered = 0
    for seed in range(20):
        a = redrawn(graph, seed)
        g = Permutation.random(a.spec, torch.Generator().manual_seed(seed))
        recovered += align.match(a, g.apply(a), "weight_matching", seed=seed).permutation == g.inverse()
    assert recovered == 20


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_dtypes(dtype):
    model = mlp(6, 8, 8, 3).to(dtype)
    g = Permutation.random(trace(model))
    found = align.match(model, g.apply(model), "weight_matching", seed=0)
    assert found.permutation == g.inverse()
    assert found.distance == 0
    assert found.apply(model)[0].weight.dtype == dtype


def all_permutations(spec):
    groups = list(spec.free)

    def rest(k):
        if k == len(groups):
            yield {}
            return
        for p in permutations(range(groups[k].size)):
            for maps in rest(k + 1):
                yield {groups[k].name: torch.tensor(p), **maps}

    return rest(0)


@pytest.mark.parametrize("widths", [(3, 4), (4, 4)])
def test_equals_exhaustive_search_in_nine_of_ten(widths):
    base = to_graph(mlp(3, *widths, 2).double())
    hits = 0
    for seed in range(10):
        a, b = redrawn(base, 2 * seed), redrawn(base, 2 * seed + 1)
        found = weight_matching(a, b, restarts=10, generator=torch.Generator().manual_seed(0)).distance
        best = min(distance(a.tensors, b.tensors, maps) for maps in all_permutations(a.spec))
        assert found > best - 1e-9
        hits += found < best + 1e-9
    assert hits >= 9


def distance(a, b, maps):
    """‖a − P b‖ of 3-layer MLPs, by hand."""
    p, q = maps["0"], maps["2"]
    moved = {
        "0.weight": b["0.weight"][p], "0.bias": b["0.bias"][p], "2.weight": b["2.weight"][q][:, p],
        "2.bias": b["2.bias"][q], "4.weight": b["4.weight"][:, q], "4.bias": b["4.bias"],
    }  # fmt: skip
    return float(sum((a[k] - moved[k]).square().sum() for k in a) ** 0.5)


@pytest.mark.parametrize("seed", range(8))
def test_objective_never_falls_and_is_what_it_says(seed):
    a = random_graph(seed)
    b = redrawn(a, seed)
    run = Ascent(a, b, generator=torch.Generator().manual_seed(seed))
    run.climb(50, 1e-7, step=quiet)
    assert run.converged
    assert run.history == sorted(run.history)
    moved = run.permutation.apply(b).tensors
    product = sum((a.tensors[k].detach().double() * moved[k].detach().double()).sum() for k in run.inner)
    assert run.history[-1] == run.objective == pytest.approx(float(product), rel=1e-9)


def test_objective_never_falls_where_it_is_quadratic():
    base = to_graph(rnn(), torch.randn(2, 5, 3))
    for seed in range(10):
        run = Ascent(redrawn(base, seed), redrawn(base, 99 + seed))
        run.climb(50, 1e-7, step=quiet)
        assert run.history == sorted(run.history)


def test_it_comes_to_rest_where_no_group_can_gain():
    """A group that is joined to itself has to be visited again after it moved."""
    base = to_graph(rnn(), torch.randn(2, 5, 3))

    def convex(seed):
        """Recurrent weights that are positive semidefinite: every assignment is a step up."""
        graph = redrawn(base, seed)
        factor = graph.tensors["rnn.weight_hh_l0"][:, :2]
        return graph.replace({**graph.tensors, "rnn.weight_hh_l0": factor @ factor.T})

    moves = 0
    for seed in range(10):
        run = Ascent(convex(seed), convex(99 + seed))
        run.climb(50, 1e-7, step=quiet)
        assert run.converged
        assert not run.visit(run.units[0], gain=1e-7 * abs(run.objective))
        moves += len(run.history) - 1
    assert moves > 10


def test_each_visit_multiplies_each_block_once(monkeypatch):
    a = to_graph(mlp(6, 9, 8, 7, 3))
    run = Ascent(a, redrawn(a, 1), generator=torch.Generator().manual_seed(0))
    products, visits = [], []
    multiply, visit = torch.Tensor.__matmul__, Ascent.visit

    def counted_product(x, y):
        products.append(tuple(x.shape))
        return multiply(x, y)

    def counted_visit(self, unit, gain):
        products.clear()
        moved = visit(self, unit, gain)
        visits.append((unit, len(products)))
        return moved

    monkeypatch.setattr(torch.Tensor, "__matmul__", counted_product)
    monkeypatch.setattr(Ascent, "visit", counted_visit)
    run.climb(50, 1e-7, step=quiet)
    first, later = visits[:3], visits[3:]
    assert [n for _, n in first] == [2, 2, 3]  # weights and biases whose other end is known: input, previous, output
    assert {n for _, n in later} == {3}  # the weights in, the bias, the weights out
    assert len(later) < 3 * 50


def test_groups_are_skipped_while_their_neighbours_are_unchanged(monkeypatch):
    a = to_graph(mlp(6, 9, 8, 7, 3))
    solved = []
    solve = module.hard_maps
    monkeypatch.setattr(module, "hard_maps", lambda spec, s: solved.append(tuple(s)) or solve(spec, s))
    Ascent(a, a, Permutation.identity(a.spec)).climb(50, 1e-7, step=quiet)
    assert len(solved) == 3  # each once, nothing moved, nothing to do


def test_running_statistics_move_along_but_do_not_count():
    base = to_graph(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2)).eval())
    a, b = redrawn(base, 0), redrawn(base, 1)
    loud = b.replace({k: 1e3 * t if "running" in k else t for k, t in b.tensors.items()})
    found, other = (weight_matching(a, x, generator=torch.Generator().manual_seed(0)) for x in (b, loud))
    assert found.permutation == other.permutation
    index = found.maps["0"]
    assert torch.equal(found.apply(b).tensors["1.running_mean"], b.tensors["1.running_mean"][index])


def test_scores_are_cosines_of_all_weights_of_two_neurons():
    base = to_graph(mlp(5, 6, 7, 3).double())
    a, b = redrawn(base, 0), redrawn(base, 1)
    found = weight_matching(a, b, generator=torch.Generator().manual_seed(0))
    p, q = found.maps["0"], found.maps["2"]

    def neurons(t, last, first):
        return torch.cat([t["0.weight"], t["0.bias"][:, None], t["2.weight"][last].T], 1)[first]

    x, y = neurons(a.tensors, torch.arange(7), torch.arange(6)), neurons(b.tensors, q, torch.arange(6))
    expected = (x @ y.T) / (x.norm(dim=1)[:, None] * y.norm(dim=1))
    torch.testing.assert_close(found.scores["0"], expected)
    assert torch.equal(align.Alignment(a, b, found.scores).maps["0"].sort().values, p.sort().values)


def test_scores_are_found_when_somebody_asks(monkeypatch):
    a = to_graph(mlp(6, 9, 8, 3))
    found = weight_matching(a, redrawn(a, 1))
    asked, scores = [], Ascent.scores
    monkeypatch.setattr(Ascent, "scores", lambda self, unit: asked.append(unit) or scores(self, unit))
    assert list(found.scores) == ["0", "2"]
    assert asked == []
    assert found.scores["2"] is found.scores["2"]
    assert asked == [("2",)]
    with pytest.raises(KeyError):
        found.scores["4"]


def test_products_of_large_blocks_are_summed_part_by_part(monkeypatch):
    a = random_graph(4)
    b = redrawn(a, 1)
    whole = weight_matching(a, b)
    monkeypatch.setattr(module, "PART", 20)
    parts = weight_matching(a, b)
    assert parts.permutation == whole.permutation
    for group, scores in whole.scores.items():
        torch.testing.assert_close(parts.scores[group], scores)


def test_a_start_that_is_right_is_kept():
    a = random_graph(4)
    g = Permutation.random(a.spec)
    assert weight_matching(a, g.apply(a), init=g.inverse()).permutation == g.inverse()


def test_reproducible_and_restarts_never_hurt():
    base = to_graph(mlp(6, 16, 16, 3))
    a, b = redrawn(base, 0), redrawn(base, 1)
    one, two = (align.match(a, b, "weight_matching", seed=3) for _ in range(2))
    assert one.permutation == two.permutation
    assert align.match(a, b, "weight_matching", seed=3, restarts=8).distance <= one.distance


def test_not_converged_names_the_knob():
    base = to_graph(mlp(6, 16, 16, 16, 3))
    a, b = redrawn(base, 0), redrawn(base, 1)
    with pytest.warns(UserWarning, match="did not converge in 1 sweeps; raise max_sweeps"):
        found = align.match(a, b, "weight_matching", seed=0, max_sweeps=1)
    assert not found.converged


def test_networks_without_free_groups():
    a = to_graph(nn.Linear(3, 2))
    found = align.match(a, redrawn(a, 1), "weight_matching")
    assert found.maps == {}
    assert found.converged


def nested():
    return Spec(
        [Group("input", 5, "network input"), Group("h", 3), Group("d", 6, parent="h"), Group("output", 4, "output")],
        [
            Param("in", ("d", "input"), "weight", reads=1),
            Param("scale", ("h",), "norm_scale"),
            Param("out", ("output", "d"), "weight", reads=1),
        ],
    )


def test_scores_of_all_groups_are_on_one_device():
    spec = nested()
    graph = to_graph({k: torch.randn(spec.shape(k)) for k in spec.params}, spec=spec)
    run = Ascent(graph, graph)
    run.device = torch.device("meta")
    assert all(s.is_meta for s in run._still(("d",)).values())
    assert list(run._still(("d",))) == ["h"]


def test_groups_nested_in_others_are_solved_together():
    spec = nested()
    assert units(spec) == [("h", "d")]
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        tensors = {k: torch.randn(spec.shape(k), generator=generator) for k in spec.params}
        a = to_graph(tensors, spec=spec)
        g = Permutation.random(spec, generator)
        assert align.match(a, g.apply(a), "weight_matching", seed=0).permutation == g.inverse()


def test_tied_weights_count_once():
    def make():
        tied = Net(
            lambda m, x: m.d(torch.relu(m.c(torch.relu(m.b(torch.relu(m.a(x))))))),
            a=nn.Linear(3, 8), b=nn.Linear(8, 8), c=nn.Linear(8, 8), d=nn.Linear(8, 2),
        )  # fmt: skip
        tied.c.weight = tied.b.weight
        return tied

    a, b = (to_graph(make(), torch.randn(2, 3)) for _ in range(2))
    run = Ascent(a, b)
    assert sorted(run.inner) == sorted(dict(make().named_parameters()))
    g = Permutation.random(a.spec)
    assert align.match(a, g.apply(a), "weight_matching", seed=0).permutation == g.inverse()


def test_different_architectures_are_refused():
    with pytest.raises(ValueError, match=r"'2.weight' is \(2, 5\) in the first and \(5, 5\) in the second"):
        align.match(mlp(4, 5, 2), mlp(4, 5, 5, 2), "weight_matching")
