"""Index sets that are partitions, with the mixtures they promise."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from align.data.splits import dirichlet_clients, disjoint_split, iid_clients

LABELS = torch.arange(10).repeat_interleave(100)[torch.randperm(1_000, generator=torch.Generator().manual_seed(3))]


def assert_partition(parts: list[Tensor] | tuple[Tensor, ...], n: int) -> None:
    assert torch.equal(torch.cat(list(parts)).sort().values, torch.arange(n))
    assert all(part.dtype == torch.int64 and torch.equal(part, part.sort().values) for part in parts)


def test_disjoint_split() -> None:
    first, second = disjoint_split(LABELS)
    assert_partition((first, second), 1_000)
    assert LABELS[first].bincount().tolist() == [95] * 5 + [5] * 5
    assert LABELS[second].bincount().tolist() == [5] * 5 + [95] * 5


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_disjoint_split_with_another_share(share: float) -> None:
    first, second = disjoint_split(LABELS, share=share)
    assert_partition((first, second), 1_000)
    assert LABELS[first].bincount(minlength=10).tolist() == [round(100 * share)] * 5 + [round(100 - 100 * share)] * 5


def test_splits_are_seeded() -> None:
    for split in (
        lambda seed: disjoint_split(LABELS, seed=seed),
        lambda seed: iid_clients(1_000, 4, seed=seed),
        lambda seed: dirichlet_clients(LABELS, 4, 0.5, seed=seed),
    ):
        a, b, c = split(0), split(0), split(1)
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
        assert not all(torch.equal(x, y) for x, y in zip(a, c, strict=True))


@given(n=st.integers(1, 200), clients=st.integers(1, 20), seed=st.integers(0, 5))
def test_iid_clients(n: int, clients: int, seed: int) -> None:
    if clients > n:
        with pytest.raises(ValueError, match=f"{clients} clients for {n} images"):
            iid_clients(n, clients, seed=seed)
        return
    parts = iid_clients(n, clients, seed=seed)
    assert_partition(parts, n)
    assert len(parts) == clients
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(
    labels=st.lists(st.integers(0, 9), min_size=40, max_size=200),
    clients=st.integers(1, 6),
    alpha=st.floats(0.1, 100),
    seed=st.integers(0, 5),
)
def test_dirichlet_clients(labels: list[int], clients: int, alpha: float, seed: int) -> None:
    parts = dirichlet_clients(torch.tensor(labels), clients, alpha, seed=seed, minimum=0)
    assert_partition(parts, len(labels))
    assert len(parts) == clients


def test_a_small_alpha_makes_clients_unequal() -> None:
    def largest_share(alpha: float) -> float:
        parts = dirichlet_clients(LABELS, 5, alpha)
        mixtures = torch.stack([LABELS[part].bincount(minlength=10) / len(part) for part in parts])
        return float(mixtures.max(1).values.mean())

    assert largest_share(0.1) > 0.25
    assert largest_share(1_000.0) < 0.15


def test_every_client_gets_its_minimum() -> None:
    assert min(map(len, dirichlet_clients(LABELS, 5, 0.1, minimum=50))) >= 50
    with pytest.raises(ValueError, match=r"take a larger alpha than 0\.01, fewer clients, or a smaller minimum"):
        dirichlet_clients(LABELS, 10, 0.01, minimum=100)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan")])
def test_a_wrong_alpha_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="expected a positive number"):
        dirichlet_clients(LABELS, 5, alpha)


def test_a_wrong_share_is_refused() -> None:
    with pytest.raises(ValueError, match=r"share is 1\.5, expected a number between 0 and 1"):
        disjoint_split(LABELS, share=1.5)
