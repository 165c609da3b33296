import pytest
import torch
from networks import mlp
from torch import nn

import align
from align.methods.covariance_matching import covariance_matching
from align.testing import assert_equivariant, assert_exact, assert_swap
from wsgraph import to_graph
from wsgraph.testing import random_graph


@pytest.mark.parametrize("seed", range(6))
def test_laws(seed):
    a = random_graph(seed)
    b = a.replace({k: t + torch.randn_like(t) if t.is_floating_point() else t for k, t in a.tensors.items()})
    assert_equivariant(covariance_matching, a, b)
    assert_swap(covariance_matching, a, b)


def test_a_permuted_copy_is_found():
    assert_exact(covariance_matching, to_graph(mlp(6, 20, 20, 3).double()))
    assert_exact(covariance_matching, to_graph(nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 9, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)
    ), torch.randn(2, 1, 8, 8)))  # fmt: skip


def test_by_name_and_for_different_widths():
    found = align.match(mlp(5, 6, 7, 3), mlp(5, 8, 7, 3), "covariance_matching")
    assert found.method == "covariance_matching"
    assert found.scores["0"].shape == (6, 8)


def test_groups_without_evidence_stay():
    net = lambda: nn.Sequential(nn.Conv2d(4, 8, 3, groups=2), nn.ReLU(), nn.Conv2d(8, 3, 3, groups=1))  # noqa: E731
    found = align.match(net(), net(), "covariance_matching", example_input=torch.randn(2, 4, 8, 8))
    assert found.permutation.hard
