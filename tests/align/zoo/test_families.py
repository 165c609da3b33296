"""Families are drawn by their number alone, and all of them work."""

from itertools import islice

import pytest
import torch

from align.zoo.families import CYCLE, WIDE, families, family
from wsgraph import trace


def test_a_number_is_a_family():
    assert family(5) == family(5)
    assert family(5) != family(5 + len(CYCLE))
    assert family(5) != family(5, seed=1)
    assert len({family(k).folder_name for k in range(200)}) == 200


def test_families_are_chosen_by_number():
    assert families(2, more=[7], seed=3) == [family(0, 3), family(1, 3), family(7, 3)]


def test_some_dense_families_are_wide_and_deep():
    deep = [family(4 * len(CYCLE) + k).args["hidden"] for k, kind in enumerate(CYCLE) if kind == "dense"]
    assert all(len(hidden) >= 4 and hidden[0] in WIDE for hidden in deep)


def test_everything_is_varied():
    configs = [family(k) for k in range(400)]
    for name, least in (("activation", 6), ("norm", 3), ("pool", 3), ("kind", 2), ("fused", 2), ("kernel", 2)):
        assert len({c.args[name] for c in configs if name in c.args}) >= least, name
    for name in ("optimiser", "init", "lr", "batch", "epochs", "decay"):
        assert len({getattr(c.recipe, name) for c in configs}) >= 2, name
    assert {c.data for c in configs} >= {
        "digits",
        "mnist",
        "fashion_mnist",
        "cifar10",
        "wine",
        "diabetes",
        "breast_cancer",
    }
    assert {c.task for c in configs} == {"classify", "table", "images"}


@pytest.mark.parametrize("number", range(2 * len(CYCLE)))
def test_networks_run_and_learn(number):
    config = family(number)
    network, x = config.network(0), config.example_input()
    out = network(x)
    assert out.isfinite().all()
    out.square().mean().backward()
    assert all(p.grad is not None for p in network.parameters())


@pytest.mark.parametrize("kind", sorted(set(CYCLE)))
def test_the_symmetry_of_every_kind_is_found(kind):
    config = next(islice((family(k) for k in range(CYCLE.index(kind), 64, len(CYCLE))), 1))
    spec = trace(config.network(0), config.example_input())
    assert spec.free
    assert sum(g.size for g in spec.free) >= 16


def test_networks_of_one_family_have_seeds_of_their_own():
    a, b = (family(0).network(seed) for seed in (1, 2))
    assert not any(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True) if p.dim() > 1)
