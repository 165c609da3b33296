"""The laws hold for an aligner that obeys them, and each is broken by one that does not."""

import pytest
import torch
from networks import mlp

import align
from align import Alignment
from align.testing import assert_equivariant, assert_exact, assert_laws, assert_swap
from wsgraph import Permutation, to_graph
from wsgraph.testing import TOLERANCE


def one_layer(a, b):
    """Exact for one hidden layer: the inner products of the neurons' weights."""
    rows = [torch.cat([g.tensors["0.weight"], g.tensors["2.weight"].T], 1) for g in (a, b)]
    return Alignment(a, b, {"0": rows[0] @ rows[1].T})


def without_scores(a, b):
    return Alignment(a, b, maps=one_layer(a, b).maps)


def biased(a, b):
    """Prefers the places neurons have."""
    return Alignment(a, b, {"0": one_layer(a, b).scores["0"] + 0.1 * torch.arange(9)})


def centred(a, b):
    """Weighs the second network's neurons by their norms: a matter of which comes second."""
    scores = one_layer(a, b).scores["0"]
    return Alignment(a, b, {"0": scores * b.tensors["0.weight"].norm(dim=1)})


def stays(a, b):
    return Alignment(a, b, maps={"0": torch.arange(9)})


@pytest.fixture
def graphs(dtype):
    return [to_graph(mlp(4, 9, 2).to(dtype)) for _ in range(2)]


def test_an_aligner_that_obeys(graphs, dtype):
    assert 0 <= assert_laws(one_layer, *graphs) <= TOLERANCE[dtype]
    assert assert_laws(without_scores, *graphs) == 0


def test_the_bundled_aligner_obeys():
    a, b = (to_graph(mlp(6, 8, 7, 3).double()) for _ in range(2))
    assert_laws(align.DeepAlign().double(), a, b)


def test_what_is_not_exact(graphs):
    draw = torch.Generator().manual_seed(1)
    with pytest.raises(AssertionError, match=r"not exact, F\(v, g·v\) ≠ gᵀ: \d of 9 partners differ in group '0'"):
        assert_exact(stays, graphs[0], draw)


def test_what_is_not_equivariant(graphs):
    with pytest.raises(AssertionError, match=r"the scores .* not equivariant.*: relative error .* in group '0'"):
        assert_equivariant(biased, *graphs)
    with pytest.raises(AssertionError, match=r"the aligner is not equivariant.*: \d of 9 partners differ in group '0'"):
        assert_equivariant(stays, *graphs)


def test_what_depends_on_which_comes_first(graphs):
    assert_equivariant(centred, *graphs)
    with pytest.raises(AssertionError, match=r"not symmetric, F\(b, a\) ≠ F\(a, b\)ᵀ: relative error"):
        assert_swap(centred, *graphs)
    forward = Permutation(graphs[0].spec, {"0": torch.arange(9).roll(1)})
    with pytest.raises(AssertionError, match=r"not symmetric.*: 9 of 9 partners differ"):
        assert_swap(lambda a, b: Alignment(a, b, maps=forward.maps), *graphs)


def test_scores_that_are_nan_are_not_equal(graphs):
    empty = lambda a, b: Alignment(a, b, {"0": torch.full((9, 9), torch.nan)}, stays(a, b).maps)  # noqa: E731
    with pytest.raises(AssertionError, match="relative error nan"):
        assert_swap(empty, *graphs)


def test_scores_of_other_groups_are_not_equal(graphs):
    a, b = graphs
    sometimes = lambda x, y: one_layer(x, y) if x is a else without_scores(x, y)  # noqa: E731
    with pytest.raises(AssertionError, match=r"scores of the groups \[\] in one answer and \['0'\] in the other"):
        assert_swap(sometimes, a, b)


def test_what_is_no_alignment_is_refused(graphs):
    with pytest.raises(TypeError, match=r"returned a Permutation, expected an Alignment: return align\.Alignment"):
        assert_exact(lambda a, b: Permutation.identity(b.spec), graphs[0])


def test_draws_come_from_the_generator(graphs):
    state = torch.get_rng_state()
    assert_laws(one_layer, *graphs, torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), state)
