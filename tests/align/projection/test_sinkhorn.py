import pytest
import torch
from networks import nested_spec

from align.projection.assignment import assign
from align.projection.sinkhorn import sinkhorn, soft_maps


@pytest.mark.parametrize("iterations", [1, 20])
def test_sinkhorn_commutes_with_transposition(iterations):
    scores = 5 * torch.randn(3, 6, 6, dtype=torch.float64)
    torch.testing.assert_close(sinkhorn(scores.mT, 0.5, iterations), sinkhorn(scores, 0.5, iterations).mT)


def test_sinkhorn_marginals_in_every_dtype(dtype):
    p = sinkhorn(3 * torch.randn(2, 7, 7, dtype=dtype), iterations=300)
    torch.testing.assert_close(p.sum(-1), torch.ones(2, 7, dtype=dtype))
    torch.testing.assert_close(p.sum(-2), torch.ones(2, 7, dtype=dtype))
    assert (p >= 0).all()


def test_sinkhorn_hardens_with_temperature_and_survives_huge_scores():
    scores = torch.randn(5, 5) + 2 * torch.eye(5)[torch.randperm(5)]
    hard = torch.eye(5)[torch.from_numpy(assign(scores.numpy()))]
    errors = [float((sinkhorn(scores, t, 500) - hard).abs().max()) for t in (3.0, 1.0, 0.1)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.05
    huge = (1e4 * scores).requires_grad_()
    p = sinkhorn(huge)
    p.square().sum().backward()
    assert p.isfinite().all()
    assert huge.grad.isfinite().all()


def test_sinkhorn_of_one_neuron_is_one():
    torch.testing.assert_close(sinkhorn(torch.tensor([[7.0]])), torch.ones(1, 1))


def test_soft_nested_matrices_are_doubly_stochastic_and_differentiable():
    scores = {"heads": torch.randn(3, 3, requires_grad=True), "dims": torch.randn(6, 6, requires_grad=True)}
    maps = soft_maps(nested_spec(3, 2), scores, iterations=200)
    for matrix in maps.values():
        torch.testing.assert_close(matrix.sum(0), torch.ones(len(matrix)))
        torch.testing.assert_close(matrix.sum(1), torch.ones(len(matrix)))
    runs = maps["dims"].view(3, 2, 3, 2).sum(dim=(1, 3)) / 2
    torch.testing.assert_close(runs, maps["heads"])
    maps["dims"].square().sum().backward()
    assert scores["heads"].grad.abs().sum() > 0
    assert scores["dims"].grad.abs().sum() > 0


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_soft_runs_are_matched_by_what_is_inside_them(temperature):
    outer, inner = torch.randn(3, 3), torch.randn(6, 6)
    inside = {(h, k): inner[2 * h : 2 * h + 2, 2 * k : 2 * k + 2] for h in range(3) for k in range(3)}
    soft = {pair: sinkhorn(s, temperature) for pair, s in inside.items()}
    gain = torch.stack([(soft[pair] * inside[pair]).sum() for pair in soft]).view(3, 3)
    maps = soft_maps(nested_spec(3, 2), {"heads": outer, "dims": inner}, temperature)
    torch.testing.assert_close(maps["heads"], sinkhorn(outer + gain, temperature))
    for (h, k), matrix in soft.items():
        torch.testing.assert_close(maps["dims"][2 * h : 2 * h + 2, 2 * k : 2 * k + 2], maps["heads"][h, k] * matrix)
