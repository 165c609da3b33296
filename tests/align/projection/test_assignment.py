from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from networks import nested_spec

from align.projection.assignment import assign, hard_maps, hard_maps_of
from align.projection.sinkhorn import soft_maps
from wsgraph import Group, Param, Permutation, Spec


def plain(n=4, name="g"):
    return Spec([Group(name, n)], [Param("w", (name,), "bias")])


@given(n=st.integers(1, 5), seed=st.integers(0, 99))
def test_assignment_is_the_best_of_all(n, seed):
    scores = np.random.default_rng(seed).normal(size=(n, n))
    best = max(sum(scores[range(n), p]) for p in permutations(range(n)))
    found = assign(scores)
    assert sorted(found) == list(range(n))
    np.testing.assert_allclose(scores[range(n), found].sum(), best)


@pytest.mark.parametrize("shape", [(2, 4), (4, 2)])
def test_rectangular_assignment(shape):
    scores = torch.randn(shape, dtype=torch.float64)
    found = hard_maps(plain(shape[0]), {"g": scores})["g"]
    rows = [i for i in range(shape[0]) if found[i] >= 0]
    assert len(rows) == 2
    assert len({int(found[i]) for i in rows}) == 2
    small, big = sorted(shape)
    matrix = scores if shape[0] == small else scores.T
    best = max(sum(float(matrix[i, p[i]]) for i in range(small)) for p in permutations(range(big), small))
    np.testing.assert_allclose(sum(float(scores[i, found[i]]) for i in rows), best)


@pytest.mark.parametrize("own", [True, False], ids=["heads scored", "heads follow"])
@pytest.mark.parametrize("seed", range(5))
def test_nested_assignment_is_the_best_of_all(seed, own):
    heads, dims = 3, 2
    generator = torch.Generator().manual_seed(seed)
    outer, inner = (torch.randn(n, n, generator=generator, dtype=torch.float64) for n in (heads, heads * dims))
    scores = {"heads": outer if own else torch.zeros_like(outer), "dims": inner}
    found = hard_maps(nested_spec(heads, dims), scores)
    Permutation(nested_spec(heads, dims), found)  # raises unless dims move with their heads

    def value(h, d):
        return float(scores["heads"][range(heads), h].sum() + inner[range(heads * dims), d].sum())

    every = (
        (list(h), [dims * h[k] + i for k in range(heads) for i in inside[k]])
        for h in permutations(range(heads))
        for inside in [(p, q, r) for p in ((0, 1), (1, 0)) for q in ((0, 1), (1, 0)) for r in ((0, 1), (1, 0))]
    )
    best = max(value(h, d) for h, d in every)
    np.testing.assert_allclose(value(found["heads"], found["dims"]), best)


@pytest.mark.parametrize("soft", [False, True])
def test_dims_move_inside_pinned_heads(soft):
    """A pinned parent never moves, however well its runs would fit elsewhere."""
    spec = nested_spec(2, 2, why="not understood")
    scores = torch.tensor([[0, 0, 9, 9], [0, 0, 9, 9], [9, 9, 0, 0], [9, 9, 0, 0]]) + 5 * torch.eye(4)[[1, 0, 3, 2]]
    if soft:
        matrix = soft_maps(spec, {"dims": scores}, iterations=100)["dims"]
        assert float(matrix[:2, 2:].abs().max() + matrix[2:, :2].abs().max()) == 0
        torch.testing.assert_close(matrix.sum(0), torch.ones(4))
        Permutation(spec, {"dims": matrix})
    else:
        assert hard_maps(spec, {"dims": scores})["dims"].tolist() == [1, 0, 3, 2]


def test_nested_groups_of_different_widths():
    """3 heads of 2 dims against 2 heads of 3: one head and one dim per head stay alone."""
    outer, inner = torch.randn(3, 2), torch.randn(6, 6)
    found = hard_maps(nested_spec(3, 2), {"heads": outer, "dims": inner})
    heads, dims = found["heads"], found["dims"].view(3, 2)
    assert sorted(heads.tolist()) == [-1, 0, 1]
    for head, inside in zip(heads.tolist(), dims, strict=True):
        assert (inside == -1).all() if head == -1 else (inside // 3 == head).all()
    used = dims[dims >= 0].tolist()
    assert len(used) == len(set(used)) == 4


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_scores_that_are_not_finite(bad):
    with pytest.raises(ValueError, match=r"not finite: .* hold NaN or Inf"):
        hard_maps(plain(2), {"g": torch.tensor([[0.0, bad], [1.0, 0.0]])})


def test_many_pairs_at_once_equal_one_by_one():
    pairs = [(plain(n), {"g": torch.randn(n, n)}) for n in (1, 3, 5)] + [(plain(2), {})]
    assert [{k: v.tolist() for k, v in m.items()} for m in hard_maps_of(pairs)] == [
        {k: v.tolist() for k, v in hard_maps(*pair).items()} for pair in pairs
    ]
