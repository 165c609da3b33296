import pytest
import torch
from networks import mlp
from torch import nn
from torch.nn.functional import softplus

import align.evidence.closed_form
from align.evidence.closed_form import Evidence
from align.running.covariance import covariances
from wsgraph import Permutation, to_graph
from wsgraph.testing import random_graph


def other(graph):
    return graph.replace({k: torch.randn_like(t) if t.is_floating_point() else t for k, t in graph.tensors.items()})


def found(a, b, **options):
    """Correlations between two networks: forward and backward, group name → ``[n_a, n_b]``."""
    return [{k: c.correlations().ab[0] for k, c in t.items()} for t in covariances([a.network], [b.network], **options)]


@pytest.mark.parametrize("seed", range(4))
def test_equivariance_and_swap(seed):
    a = random_graph(seed)
    b = other(a)
    scores = {g.name: torch.randn(1, g.size, g.size, dtype=torch.float64) for g in a.spec.free}
    evidence = Evidence().double()
    nn.init.normal_(evidence.gate.weight)
    told = lambda x, y, s: evidence([x.network], [y.network], s)  # noqa: E731
    plain = told(a, b, scores)
    assert any((plain[k] - s).abs().max() > 1e-3 for k, s in scores.items())
    g, h = Permutation.random(a.spec), Permutation.random(a.spec)
    moved = {k: s[:, g.maps[k]][:, :, h.maps[k]] for k, s in scores.items()}
    permuted = told(g.apply(a), h.apply(b), moved)
    swapped = told(b, a, {k: s.mT for k, s in scores.items()})
    for k, s in plain.items():
        torch.testing.assert_close(permuted[k], s[:, g.maps[k]][:, :, h.maps[k]])
        torch.testing.assert_close(swapped[k], s.mT)


def test_terms_by_hand():
    torch.manual_seed(0)
    a, b = (to_graph(mlp(3, 4, 2).double()) for _ in range(2))
    evidence = Evidence().double()
    nn.init.normal_(evidence.gate.weight)
    (forward,), (backward,) = (t.values() for t in found(a, b))
    noise = torch.stack([r.std(correction=0) for r in (forward, backward)])
    alpha, beta = softplus(evidence.gate.weight @ noise.log() + evidence.gate.bias)
    expected = alpha * forward / noise[0] + beta * backward / noise[1]
    zero = torch.zeros(1, 4, 4, dtype=torch.float64)
    torch.testing.assert_close(evidence([a.network], [b.network], {"0": zero})["0"][0], expected)


def test_large_networks_hear_pinned_neighbours_only(monkeypatch):
    a, b = to_graph(mlp(3, 4, 5, 6, 2)), to_graph(mlp(3, 4, 5, 6, 2))
    forward, backward = found(a, b, deep=False)
    assert (list(forward), list(backward)) == (["0"], ["4"])
    scores = {g.name: torch.zeros(1, g.size, g.size) for g in a.spec.free}
    assert Evidence()([a.network], [b.network], scores)["2"].abs().max() > 0
    monkeypatch.setattr(align.evidence.closed_form, "LARGE", 1)
    assert Evidence()([a.network], [b.network], scores)["2"].abs().max() == 0


def test_a_dead_layer_is_no_evidence():
    a = to_graph(mlp(3, 4, 2))
    dead = a.replace({k: torch.zeros_like(t) for k, t in a.tensors.items()})
    out = Evidence()([a.network], [dead.network], {"0": torch.zeros(1, 4, 4)})["0"]
    assert out.detach().abs().max() < 1e-3
