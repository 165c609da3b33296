"""Codes of pinned nodes come from the weights of all networks concerned, and from nothing else."""

import pytest
import torch
from networks import mlp
from torch import nn

from wsgraph import Permutation, to_graph
from wsgraph.nn import spectral
from wsgraph.nn.spectral import signed, spectral_codes

SIZE = 6


def graph(*widths, dtype=torch.float64):
    return to_graph(mlp(*widths).to(dtype))


def codes(*graphs):
    return spectral_codes([[g.network] for g in graphs], SIZE)


def assert_same(found, expected, **tolerance):
    assert found.keys() == expected.keys()
    for name, c in expected.items():
        torch.testing.assert_close(found[name], c, **tolerance)


def shuffled(g, inputs, outputs):
    """The same network with its inputs and outputs in another order."""
    t = dict(g.tensors)
    last = list(t)[-2]
    t["0.weight"], t[last] = t["0.weight"][:, inputs], t[last][outputs]
    return g.replace(t)


def test_they_are_the_leading_right_singular_vectors_of_all_weights_at_the_group():
    a, b = graph(9, 5, 3), graph(9, 5, 3)
    m = torch.cat([g.tensors["0.weight"] / g.tensors["0.weight"].norm() for g in (a, b)])
    _, s, v = torch.linalg.svd(m)
    v = v[:SIZE] * v[:SIZE].pow(3).sum(1, keepdim=True).sign()
    expected = v.T * 3 * (s[:SIZE] / s[0]).sqrt()
    torch.testing.assert_close(codes(a, b)["input"], expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("widths", [(9, 5, 3), (4, 30, 12), (40, 7, 7, 2)])  # more rows than elements, and fewer
def test_neurons_and_swapping_do_not_matter_and_elements_are_followed(widths, dtype):
    a, b = graph(*widths, dtype=dtype), graph(*widths, dtype=dtype)
    plain = codes(a, b)
    moved = [Permutation.random(a.spec).apply(g) for g in (a, b)]
    assert_same(codes(*moved), plain)
    assert_same(codes(b, a), plain)
    inputs, outputs = torch.randperm(widths[0]), torch.randperm(widths[-1])
    found = codes(shuffled(a, inputs, outputs), shuffled(b, inputs, outputs))
    assert_same(found, {"input": plain["input"][inputs], "output": plain["output"][outputs]})


def test_signs_of_the_solver_do_not_matter(monkeypatch):
    a, b = graph(9, 5, 3), graph(9, 5, 3)
    plain = codes(a, b)
    solve = torch.linalg.eigh

    def flipped(m):
        values, vectors = solve(m)
        return values, vectors * (torch.arange(vectors.shape[-1]) % 2 * 2 - 1)

    monkeypatch.setattr(torch.linalg, "eigh", flipped)
    assert_same(codes(a, b), plain)


def test_what_numbers_cannot_tell_apart_has_no_code():
    a = graph(6, 6, 3)
    tensors = dict(a.tensors)
    tensors["0.weight"] = torch.diag(torch.tensor([3.0, 2.0, 2.0, 1.0, 0.0, 0.0], dtype=torch.float64))
    told = codes(a.replace(tensors))["input"]
    assert (told.abs().sum(0) > 0).tolist() == [True, False, False, True, False, False]
    tensors["0.weight"] = torch.tensor([[1.0, -1.0, 0, 0, 0, 0]]).double().expand(6, -1)  # v and −v are alike
    assert codes(a.replace(tensors))["input"].abs().max() == 0


def test_pairs_in_a_batch_have_the_codes_they_have_alone():
    a, b = [graph(9, 5, 3) for _ in range(3)], [graph(9, 5, 3) for _ in range(3)]
    together = spectral_codes([[g.network for g in side] for side in (a, b)], SIZE)
    for k, pair in enumerate(zip(a, b, strict=True)):
        assert_same({name: c[k] for name, c in together.items()}, codes(*pair))


def test_large_gram_matrices_are_only_another_way(monkeypatch):
    graphs = [graph(30, 12, 3) for _ in range(2)]
    sides = [[g.network for g in graphs], [g.network for g in reversed(graphs)]]
    for given in ([[g.network] for g in graphs], sides):
        plain = spectral_codes(given, SIZE)
        with monkeypatch.context() as patch:
            patch.setattr(spectral, "WHOLE", 2)
            assert_same(spectral_codes(given, SIZE), plain)
            patch.setattr(spectral, "EXACT", 0)
            single = [
                [to_graph({k: t.float() for k, t in n.tensors.items()}, spec=n.spec).network for n in side]
                for side in given
            ]
            assert_same({k: c.double() for k, c in spectral_codes(single, SIZE).items()}, plain, atol=1e-2, rtol=1e-2)


def test_drawing_changes_signs_only_and_alike_for_all_pairs():
    sides = [[graph(9, 5, 3).network for _ in range(2)] for _ in range(2)]
    found = spectral_codes(sides, SIZE)
    plain, drawn = found["input"], signed(found, torch.Generator().manual_seed(1))["input"]
    ratio = (drawn / plain)[:, 0]
    torch.testing.assert_close(drawn, plain * ratio[:, None])
    assert sorted(set(ratio.flatten().round().tolist())) == [-1, 1]
    assert torch.equal(ratio[0].round(), ratio[1].round())


def test_different_widths_share_codes():
    a, b = graph(9, 5, 3), graph(9, 8, 3)
    assert_same(codes(a, b), codes(b, a))


def test_taps_convolutions_and_groups_without_weights():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    g = to_graph(model.double(), torch.randn(1, 3, 6, 6, dtype=torch.float64))
    found = codes(g)
    assert found["input"].shape == (3, SIZE)
    assert (found["input"][:, :3].abs().sum(0) > 0).all()
    assert found["input"][:, 3:].abs().max() == 0
