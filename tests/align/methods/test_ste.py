import pytest
import torch
from torch import nn
from torch.nn import functional as F

import align
from align.methods.objective import LineLoss
from align.methods.ste import straight_through
from wsgraph import Permutation, trace


def test_lowers_the_loss_at_the_midpoint(pair):
    a, b, data = pair
    line = LineLoss(a, b, trace(a), F.cross_entropy, data)
    found = align.match(a, b, "ste", data=data, iterations=60, seed=0)
    start = align.match(a, b, "weight_matching", seed=0).permutation
    assert line.hard(found.permutation) < line.hard(start) < line.hard(Permutation.identity(line.spec))


def test_recovers_a_planted_permutation(pair):
    a, _, data = pair
    g = Permutation.random(trace(a))
    with pytest.warns(UserWarning, match="improved nothing"):  # the very first projection is right
        found = align.match(a, g.apply(a), "ste", data=data, iterations=2, seed=0)
    assert found.distance == 0


@pytest.mark.parametrize("cost", [5e-2, 10.0])
def test_a_start_is_never_made_worse(pair, cost):
    a, b, data = pair
    line = LineLoss(a, b, trace(a), F.cross_entropy, data)
    start = align.match(a, b, "sinkhorn", data=data, iterations=60, seed=0)
    found = straight_through(a, b, data=data, init=start, iterations=4, lr=cost)
    assert line.hard(found.permutation) <= line.hard(start.permutation)
    assert found.converged


def test_not_converged_names_the_knobs(pair):
    a, _, data = pair
    with pytest.warns(UserWarning, match="1 straight-through steps improved nothing; raise iterations or lr"):
        found = align.match(a, a, "ste", data=data, iterations=1, seed=0)
    assert not found.converged


def test_at_least_one_step(pair):
    a, b, data = pair
    with pytest.raises(ValueError, match="at least one step, got iterations=0"):
        align.match(a, b, "ste", data=data, iterations=0)


def test_counters_of_networks_in_training_mode_stay():
    def make():
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))

    a, b = make(), make()
    data = torch.randn(32, 4), torch.randint(3, (32,))
    align.match(a, b, "weight_matching+ste", data=data, iterations=3, seed=0)
    assert int(a[1].num_batches_tracked) == int(b[1].num_batches_tracked) == 0
    assert torch.equal(a[1].running_mean, torch.zeros(6))
    assert a.training
    assert b.training
