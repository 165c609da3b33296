import pytest
import torch
from networks import mlp

from align.projection.sinkhorn import soft_maps
from align.refine import Refine
from wsgraph import Permutation, to_graph
from wsgraph.testing import random_graph


def scores_of(spec, dtype=torch.float64):
    return {g.name: torch.randn(1, g.size, g.size, dtype=dtype) for g in spec.free}


def refined(refine, a, b, scores):
    """Of one pair."""
    return refine([a.network], [b.network], scores)


def other(graph):
    return graph.replace({k: torch.randn_like(t) if t.is_floating_point() else t for k, t in graph.tensors.items()})


def test_one_step_by_hand():
    a, b = (to_graph(mlp(3, 4, 2).double()) for _ in range(2))
    refine = Refine(1).double()
    scores = scores_of(a.spec)
    alpha, beta = torch.nn.functional.softplus(refine.raw).sum(0)  # both steps see pinned neighbours only
    wa, wb = (g.tensors["0.weight"] / g.tensors["0.weight"].norm(dim=1, keepdim=True) for g in (a, b))
    va, vb = (g.tensors["2.weight"] / g.tensors["2.weight"].norm(dim=0) for g in (a, b))
    expected = scores["0"] + alpha * wa @ wb.T + beta * va.T @ vb
    torch.testing.assert_close(refined(refine, a, b, scores)["0"], expected)


def test_the_first_layer_and_the_last_speak_without_a_matching():
    a, b = (to_graph(mlp(3, 4, 5, 2).double()) for _ in range(2))
    refine, scores = Refine().double(), scores_of(a.spec)
    alpha, beta = torch.nn.functional.softplus(refine.raw)[0]
    unit = lambda w: w / w.norm(dim=1, keepdim=True)  # noqa: E731
    (wa, wb), (va, vb) = ([unit(m) for m in ms] for ms in (
        [g.tensors["0.weight"] for g in (a, b)], [g.tensors["4.weight"].T for g in (a, b)]
    ))  # fmt: skip
    found = refined(refine, a, b, scores)
    torch.testing.assert_close(found["0"], scores["0"] + alpha * wa @ wb.T)
    torch.testing.assert_close(found["2"], scores["2"] + beta * va @ vb.T)


def test_hidden_neighbours_speak_through_the_current_matching():
    a, b = (to_graph(mlp(3, 4, 5, 2).double()) for _ in range(2))
    refine, scores = Refine(1).double(), scores_of(a.spec)
    with torch.no_grad():
        refine.raw[0] = -1e4  # no say at first
    alpha, beta = torch.nn.functional.softplus(refine.raw)[1]
    soft = soft_maps(a.spec, scores, 1.0, 10)
    unit = lambda w: w / w.norm(dim=1, keepdim=True)  # noqa: E731
    w, v = (unit(g.tensors["2.weight"]) for g in (a, b)), (unit(g.tensors["4.weight"].T) for g in (a, b))
    wa, wb = w
    va, vb = v
    expected = scores["2"] + alpha * wa @ soft["0"] @ wb.T + beta * va @ vb.T
    torch.testing.assert_close(refined(refine, a, b, scores)["2"], expected)


@pytest.mark.parametrize("seed", range(4))
def test_equivariance_and_swap(seed):
    a = random_graph(seed)
    b, scores = other(a), scores_of(a.spec)
    refine = Refine(2).double()
    plain = refined(refine, a, b, scores)
    g, h = Permutation.random(a.spec), Permutation.random(a.spec)
    moved = {k: s[:, g.maps[k]][:, :, h.maps[k]] for k, s in scores.items()}
    permuted = refined(refine, g.apply(a), h.apply(b), moved)
    swapped = refined(refine, b, a, {k: s.mT for k, s in scores.items()})
    for k, s in plain.items():
        torch.testing.assert_close(permuted[k], s[:, g.maps[k]][:, :, h.maps[k]])
        torch.testing.assert_close(swapped[k], s.mT)


def test_large_networks_and_different_widths_are_refined_by_pinned_neighbours_only(monkeypatch):
    a, b, wide = to_graph(mlp(3, 4, 4, 2)), to_graph(mlp(3, 4, 4, 2)), to_graph(mlp(3, 5, 4, 2))
    for other_, size in ((b, 4), (wide, 5)):
        scores = {"0": torch.randn(1, 4, size), "2": torch.randn(1, 4, 4)}
        monkeypatch.setattr("align.refine.LARGE", 0)
        torch.testing.assert_close(refined(Refine(2), a, other_, scores), refined(Refine(), a, other_, scores))
        monkeypatch.undo()
        same = torch.equal(refined(Refine(2), a, other_, scores)["2"], refined(Refine(), a, other_, scores)["2"])
        assert same == (other_ is wide)


def test_dead_neurons_and_gradients():
    a, b = (to_graph(mlp(3, 4, 2)) for _ in range(2))
    zero = a.replace({k: torch.zeros_like(t) for k, t in a.tensors.items()})
    refine = Refine(2)
    out = refined(refine, zero, b, scores_of(a.spec, torch.float32))["0"]
    out.sum().backward()
    assert out.isfinite().all()
    assert refine.raw.grad.isfinite().all()
