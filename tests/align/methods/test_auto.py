"""The best of the cheap methods, by what the average of the two networks says."""

import pytest
import torch
from networks import mlp
from torch import nn

import align
from align.methods import auto
from wsgraph import Permutation, to_graph


def trained(seed, norm=False):
    """A small classifier of which side of two lines a point is on."""
    torch.manual_seed(seed)
    layers = [nn.Linear(2, 16), *([nn.BatchNorm1d(16)] if norm else []), nn.ReLU(), nn.Linear(16, 16), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(16, 4))
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(150):
        x, y = points(128)
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    return model.eval()


def points(count):
    x = torch.randn(count, 2)
    return x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()


@pytest.fixture(scope="module")
def pair():
    return trained(0), trained(1)


def midpoint_loss(a, b, alignment, data):
    return float(align.barrier(a, b, data=data, points=3, alignment=alignment).loss[1])


def test_with_labels_the_best_candidate_is_kept(pair):
    a, b = pair
    data = points(255)
    found = align.match(a, b, data=data)
    assert found.method == "auto"
    assert [c.method for c in found.candidates] == list(auto.CANDIDATES[:-1])
    scores = [c.score for c in found.candidates]
    single = [midpoint_loss(a, b, align.match(a, b, m, **({"data": data} if m == "activation_matching" else {})), data)
              for m in auto.CANDIDATES[:-1]]  # fmt: skip
    assert scores == pytest.approx(single, rel=1e-3)
    assert midpoint_loss(a, b, found, data) == pytest.approx(min(single), rel=1e-3)


@pytest.mark.parametrize("labelled", [True, False])
def test_with_enough_data_permutations_are_optimised_and_judged_on_other_samples(pair, labelled):
    a, b = pair
    x, y = points(512)
    found = align.match(a, b, data=(x, y) if labelled else x)
    *others, optimised = found.candidates
    best = min(others, key=lambda c: c.score)
    assert [c.method for c in others] == list(auto.CANDIDATES[:-1])
    assert optimised.method == f"{best.method}+sinkhorn"
    kept = min(found.candidates, key=lambda c: c.score)
    assert [c for c in found.candidates if c.kept] == [kept]
    assert f"auto, which kept {kept.method}: " in repr(found)
    if labelled:
        half = align.match(a, b, optimised.method, data=(x[::2], y[::2]), iterations=auto.ITERATIONS)
        assert optimised.score == pytest.approx(midpoint_loss(a, b, half, (x[1::2], y[1::2])), rel=1e-3)


def test_without_data_permutations_are_optimised_on_dreams_where_these_are_sound(pair):
    dense = align.match(*pair)
    assert dense.candidates[-1].method == "deep_align+sinkhorn"
    assert align.match(*pair, data="dreams").permutation == dense.permutation
    norm = align.match(trained(0, norm=True), trained(1, norm=True))
    convolutional = align.match(*(nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 3))
                                  for _ in range(2)), example_input=torch.zeros(2, 1, 4, 4))  # fmt: skip
    wide = align.match(mlp(2, 520, 4), mlp(2, 520, 4))
    for found in (norm, convolutional, wide):
        assert [c.method for c in found.candidates] == list(auto.CANDIDATES[:-1])


@pytest.mark.parametrize("data", [None, "noise", "inputs"])
def test_without_labels_the_networks_are_the_judges(pair, data):
    a, b = pair
    given = points(256)[0] if data == "inputs" else data
    found = align.match(a, b, data=given)
    assert all(c.score >= 0 for c in found.candidates)
    labelled = points(256)
    assert midpoint_loss(a, b, found, labelled) < midpoint_loss(a, b, None, labelled)


def test_a_permuted_copy_is_found_at_once(pair):
    a, _ = pair
    planted = Permutation.random(to_graph(a).spec)
    found = align.match(a, planted.apply(a))
    assert found.permutation == planted.inverse()
    assert min(c.score for c in found.candidates) == pytest.approx(0, abs=1e-5)


def test_batchnorm_is_measured_on_what_there_is():
    a, b = trained(0, norm=True), trained(1, norm=True)
    state = {k: t.clone() for k, t in a.state_dict().items()}
    data = points(255)
    found = align.match(a, b, data=data)
    expected = [
        float(align.barrier(a, b, data=data, points=3, reset_batchnorm=data[0], alignment=align.match(a, b, m)).loss[1])
        for m in auto.CANDIDATES[:3]
    ]
    assert [c.score for c in found.candidates[:3]] == pytest.approx(expected, rel=1e-3)
    assert all(torch.equal(t, state[k]) for k, t in a.state_dict().items())


def test_networks_that_cannot_be_run_are_not_judged(pair):
    a, b = (to_graph(m) for m in pair)
    found = align.match(a, b)
    assert [(c.method, c.score) for c in found.candidates] == [("deep_align", None)]


def test_a_budget_bounds_what_is_tried(pair):
    assert len(align.match(*pair, budget=0.0).candidates) == 1


def test_large_networks_are_matched_by_weights_unless_a_budget_allows_more(pair, monkeypatch):
    monkeypatch.setattr(auto, "LARGE", 10)
    assert [(c.method, c.score) for c in align.match(*pair).candidates] == [("weight_matching", None)]
    assert len(align.match(*pair, budget=600.0).candidates) == len(auto.CANDIDATES)


def test_tokens_are_drawn_for_networks_that_read_them():
    def reader():
        return nn.Sequential(nn.Embedding(11, 6), nn.Flatten(), nn.Linear(18, 8), nn.ReLU(), nn.Linear(8, 3))

    found = align.match(reader(), reader(), example_input=torch.zeros(2, 3, dtype=torch.long))
    assert all(c.score is not None for c in found.candidates)


def test_the_loss_can_be_chosen():
    a, b = mlp(3, 8, 1), mlp(3, 8, 1)
    data = torch.randn(64, 3), torch.randn(64, 1)
    found = align.match(a, b, data=data, loss=nn.functional.mse_loss)
    assert all(c.score is not None for c in found.candidates)


def test_one_sample_judges_what_needs_no_data(pair):
    found = align.match(*pair, data=points(1)[0])
    assert [candidate.method for candidate in found.candidates] == list(auto.CANDIDATES[:4])


def test_covariances_are_for_small_networks(pair, monkeypatch):
    monkeypatch.setattr(auto, "SMALL", 10)
    tried = [candidate.method for candidate in align.match(*pair, data=points(512)).candidates]
    assert tried == [m for m in auto.CANDIDATES if m not in ("covariance_matching", "sinkhorn")]
