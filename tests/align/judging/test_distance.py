import pytest
import torch
from networks import mlp
from safetensors.torch import save_file

import align
from align.judging.distance import plane
from wsgraph import Permutation, to_graph


@pytest.fixture(scope="module")
def graphs():
    torch.manual_seed(1)
    return [to_graph(mlp(5, 8, 7, 3)) for _ in range(3)]


@pytest.mark.parametrize("method", ["weight_matching", "deep_align"])
def test_zero_exactly_for_permuted_copies(graphs, method):
    a = graphs[0]
    assert align.distance(a, Permutation.random(a.spec).apply(a), method) == 0


def test_smaller_than_without_permutations(graphs):
    a, b, _ = graphs
    assert align.distance(a, b, seed=0) < align.distance(a, b, "identity")


def test_matrix_is_symmetric_and_invariant(graphs):
    found = align.pairwise_distance(graphs, seed=0, restarts=3)
    assert torch.equal(found, found.T)
    assert torch.equal(found.diagonal(), torch.zeros(3))
    assert (found + 9 * torch.eye(3) > 0).all()
    moved = [Permutation.random(g.spec).apply(g) for g in graphs]
    torch.testing.assert_close(align.pairwise_distance(moved, seed=0, restarts=3), found, rtol=0.05, atol=0)


def test_modules_and_data(graphs):
    models = [mlp(5, 4, 3) for _ in range(2)]
    found = align.pairwise_distance(models, "activation_matching", data=torch.randn(50, 5))
    assert found[0, 1] > 0


def test_triangle_of_copies(graphs):
    """Copies of one network lie in one point, as far from any other network as each other."""
    a, other = graphs[:2]
    copies = [a, Permutation.random(a.spec).apply(a)]
    near = [align.distance(c, other, seed=0, restarts=10) for c in copies]
    assert near[0] == pytest.approx(near[1], rel=0.05)


def test_points_of_the_plane_keep_their_distances():
    points = torch.randn(7, 2, dtype=torch.float64)
    distances = torch.cdist(points, points)
    found = plane(distances)
    assert found.shape == (7, 2)
    torch.testing.assert_close(torch.cdist(found, found), distances)
    assert found[:, 0].var() >= found[:, 1].var()


def test_points_of_copies_coincide(graphs):
    a, b = graphs[:2]
    found = plane(align.pairwise_distance([a, b, Permutation.random(a.spec).apply(a)], seed=0, restarts=5), 1)
    assert (found[0] - found[2]).abs() < 0.1 * (found[0] - found[1]).abs()


@pytest.mark.filterwarnings("ignore:.*assuming a plain chain of layers")
def test_distances_between_files(graphs, tmp_path):
    paths = [tmp_path / f"{k}.safetensors" for k in range(3)]
    for path, graph in zip(paths, graphs, strict=True):
        save_file(graph.to_state_dict(), path)
    assert align.distance(paths[0], str(paths[1])) == align.distance(graphs[0], graphs[1])
    torch.testing.assert_close(align.pairwise_distance(paths), align.pairwise_distance(graphs))
    found, expected = (align.match_many(networks).between(0, 1).maps for networks in (paths, graphs))
    torch.testing.assert_close(dict(found), dict(expected))
    assert align.match(*paths[:2]).candidates[0].method == "deep_align"
