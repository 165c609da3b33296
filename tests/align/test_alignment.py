import copy
import pickle
from dataclasses import FrozenInstanceError

import pytest
import torch
from networks import Net, mlp
from safetensors import safe_open
from torch import nn

import align
from align.alignment import Candidate, counted, project
from wsgraph import Group, Param, Permutation, Spec, to_graph
from wsgraph.files import read_tensors, save_tensors
from wsgraph.testing import random_graph


@pytest.fixture(scope="module")
def graphs():
    torch.manual_seed(0)
    a, b = mlp(4, 6, 5, 2), mlp(4, 6, 5, 2)
    return to_graph(a), to_graph(b)


def test_round_trip(graphs, tmp_path):
    a, b = graphs
    saved = align.Alignment(a, b, {"0": torch.randn(6, 6), "2": torch.randn(5, 5)}, None, "mine", 1.5, False)
    saved.save(tmp_path / "x.safetensors")
    loaded = align.Alignment.load(tmp_path / "x.safetensors", a, b)
    assert loaded.permutation == saved.permutation
    assert (loaded.method, loaded.elapsed, loaded.converged) == ("mine", 1.5, False)
    assert all(torch.equal(loaded.scores[k], saved.scores[k]) for k in saved.scores)
    assert loaded.distance == saved.distance


def test_an_alignment_is_frozen_and_another_is_made_by_replace(graphs):
    found = align.Alignment(*graphs, {"0": torch.randn(6, 6), "2": torch.randn(5, 5)}, method="mine")
    for name in ("method", "elapsed", "scores", "maps", "a", "new"):
        with pytest.raises(
            FrozenInstanceError, match=rf"frozen: make another by .replace\(\), as in .replace\({name}="
        ):
            setattr(found, name, None)
    with pytest.raises(FrozenInstanceError):
        del found.method
    for mapping in (found.scores, found.maps):
        with pytest.raises(TypeError):
            mapping["0"] = torch.zeros(6)
    other = found.replace(method="other", elapsed=2.0, candidates=[Candidate("mine", 0.5)])
    assert (found.method, found.elapsed, found.candidates) == ("mine", 0.0, ())
    assert (other.method, other.elapsed, other.candidates) == ("other", 2.0, (Candidate("mine", 0.5),))
    assert other.permutation == found.permutation
    with pytest.raises(TypeError, match=r"'maps' cannot be replaced, only \['method', 'elapsed', "):
        found.replace(maps={})


def test_hard_maps_are_found_once_and_together(graphs, monkeypatch):
    scores = {"0": torch.randn(6, 6), "2": torch.randn(5, 5)}
    several = [align.Alignment(*graphs, scores) for _ in range(3)]
    project(several)
    monkeypatch.setattr("align.alignment.hard_maps_of", None)  # nothing is left to find, for the copies neither
    for found in (*several, several[0].replace(method="x"), copy.deepcopy(several[0])):
        assert sorted(found.maps["0"].tolist()) == list(range(6))
    again = pickle.loads(pickle.dumps(several[0]))
    assert again.permutation == several[0].permutation


def test_candidates_are_saved_and_files_without_are_as_before(graphs, tmp_path):
    found = align.match(*graphs, "identity")
    tried = (Candidate("identity", 0.25, 1.5), Candidate("deep_align", 1.0))
    for alignment, expected in ((found, ()), (found.replace(candidates=tried), tried)):
        alignment.save(tmp_path / "x.safetensors")
        with safe_open(tmp_path / "x.safetensors", "pt") as file:
            assert ("candidates" in file.metadata()) == bool(expected)
        assert align.Alignment.load(tmp_path / "x.safetensors", *graphs).candidates == expected


def test_notebooks_show_a_table(graphs):
    maps = {"0": torch.tensor([1, 0, 2, 3, 4, 5]), "2": torch.arange(5)}
    shown = align.Alignment(*graphs, maps=maps, method="<mine>", elapsed=1.5, converged=False)._repr_html_()
    assert shown == (
        "<table><caption>&lt;mine&gt;, 1.500 s, not converged</caption>"
        "<tr><th>group</th><th>size</th><th>moved</th></tr>"
        "<tr><td>0</td><td>6</td><td>2</td></tr><tr><td>2</td><td>5</td><td>0</td></tr></table>"
    )


def test_groups_are_in_the_order_of_the_spec(graphs, tmp_path):
    scores = {"2": torch.randn(5, 5), "0": torch.randn(6, 6)}
    found = align.Alignment(*graphs, scores)
    assert list(found.maps) == list(found.scores) == ["0", "2"]
    maps = align.Alignment(*graphs, maps={name: torch.arange(len(s)) for name, s in scores.items()})
    assert list(maps.maps) == ["0", "2"]
    many = [to_graph(mlp(*[3] * 13)) for _ in range(2)]  # groups 0, 2, …, 20: "10" comes before "2" in a file
    align.match(*many, "identity").save(tmp_path / "x.safetensors")
    loaded = align.Alignment.load(tmp_path / "x.safetensors", *many)
    assert list(loaded.maps) == [group.name for group in loaded.spec.free]


def test_round_trip_without_scores(graphs, tmp_path):
    saved = align.match(*graphs, "identity")
    saved.save(tmp_path / "x.safetensors")
    assert align.Alignment.load(tmp_path / "x.safetensors", *graphs).scores == {}


@pytest.mark.parametrize(
    ("meta", "tensors", "message"),
    [
        ({"elapsed": "soon"}, {}, "could not convert string to float"),
        ({"candidates": "{"}, {}, "candidates is not JSON"),
        ({"candidates": '[{"method": 3}]'}, {}, r"candidates\[0\]\.score is missing"),
        ({}, {"map/nowhere": torch.arange(3)}, r"KeyError\('nowhere'\)"),
        ({}, {"weights/0": torch.arange(3)}, r"KeyError\('weights'\)"),
    ],
)
def test_what_is_no_alignment_inside_is_refused(graphs, tmp_path, meta, tensors, message):
    path = tmp_path / "x.safetensors"
    align.match(*graphs, "identity").save(path)
    found, described = read_tensors(path)
    save_tensors({**found, **tensors}, path, {**described, **meta})
    with pytest.raises(
        ValueError, match=f"x.safetensors is not what Alignment.save writes: .*{message}.*Save it again"
    ):
        align.Alignment.load(path, *graphs)


def test_wrong_architecture_is_refused_for_either_network(graphs, tmp_path):
    a, b = graphs
    other = to_graph(mlp(4, 3, 2))
    align.match(a, b, "identity").save(tmp_path / "x.safetensors")
    for wrong in ((a, other), (other, b)):
        with pytest.raises(ValueError, match=r"alignment of another architecture .* expected .* pass the networks"):
            align.Alignment.load(tmp_path / "x.safetensors", *wrong)


def test_other_files_are_refused(graphs, tmp_path):
    a, b = graphs
    Permutation.random(a.spec).save(tmp_path / "p.safetensors")
    with pytest.raises(ValueError, match=r"is not a align\.Alignment file"):
        align.Alignment.load(tmp_path / "p.safetensors", a, b)


def test_repr(graphs):
    a, b = graphs
    maps = {"0": torch.tensor([1, 0, 2, 3, 4, 5]), "2": torch.arange(5)}
    found = align.Alignment(a, b, maps=maps, method="mine", elapsed=0.25, converged=False)
    assert repr(found) == "Alignment(mine: 2 of 11 neurons moved in 2 groups, 0.250 s, not converged)"


def test_repr_of_different_widths(graphs):
    scores = {"0": torch.randn(6, 3), "2": torch.randn(5, 5)}
    found = align.Alignment(graphs[0], to_graph(mlp(4, 3, 5, 2)), scores, method="mine")
    assert repr(found) == "Alignment(mine: 8 of 11 neurons matched, partial: different widths, see .pairs, 0.000 s)"


def test_distance_is_that_of_the_weights(graphs):
    a, b = graphs
    found = align.match(a, b, seed=0)
    moved = found.apply(b).tensors
    expected = sum((a.tensors[k] - moved[k]).detach().double().square().sum() for k in a.tensors) ** 0.5
    assert found.distance == pytest.approx(float(expected))


def test_distance_leaves_norm_statistics_out_and_counts_tied_weights_once():
    norm = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).eval()
    a = to_graph(norm)
    shifted = {k: t + 1 if a.spec.params[k].role in ("mean", "variance") else t for k, t in a.tensors.items()}
    assert align.match(a, a.replace(shifted), "identity").distance == 0

    tied = Net(
        lambda m, x: m.d(torch.relu(m.c(torch.relu(m.b(torch.relu(m.a(x))))))),
        a=nn.Linear(3, 4), b=nn.Linear(4, 4), c=nn.Linear(4, 4), d=nn.Linear(4, 2),
    )  # fmt: skip
    tied.c.weight = tied.b.weight
    a = to_graph(tied, torch.randn(2, 3))
    assert sorted(counted(a)) == sorted(dict(tied.named_parameters()))
    b = a.replace({k: t.detach() + 1 if k in ("b.weight", "c.weight") else t for k, t in a.tensors.items()})
    assert align.match(a, b, "identity").distance == pytest.approx(4)  # 16 weights, not 32


def test_pairs_of_equal_widths(graphs):
    found = align.match(*graphs, seed=0)
    for name, pairs in found.pairs.items():
        assert pairs[:, 0].tolist() == list(range(len(pairs)))
        assert torch.equal(pairs[:, 1], found.maps[name])


def test_different_widths_give_pairs_but_no_permutation(graphs):
    a, _ = graphs
    b = to_graph(mlp(4, 3, 5, 2))
    found = align.Alignment(a, b, {"0": torch.randn(6, 3), "2": torch.randn(5, 5)})
    assert {k: tuple(v.shape) for k, v in found.pairs.items()} == {"0": (3, 2), "2": (5, 2)}
    assert len(set(found.pairs["0"][:, 1].tolist())) == 3
    with pytest.raises(
        ValueError, match=r"different widths, so there is no permutation; use the index pairs in .pairs"
    ):
        found.apply(b)
    with pytest.raises(ValueError, match="different widths, so there is no doubly stochastic"):
        found.soft()


def test_soft_needs_scores(graphs):
    with pytest.raises(ValueError, match="identity finds permutations without scores; there is no soft version"):
        align.match(*graphs, "identity").soft()


def test_soft_approaches_the_hard_permutation():
    a = random_graph(3)
    b = Permutation.random(a.spec).apply(a)
    found = align.match(a, b, seed=0)
    soft = found.soft(temperature=0.01, iterations=200)
    for name, matrix in soft.maps.items():
        torch.testing.assert_close(matrix, found.permutation.matrix(name).to(matrix), atol=0.05, rtol=0)


def test_an_alignment_needs_something(graphs):
    with pytest.raises(ValueError, match="needs scores or maps"):
        align.Alignment(*graphs)


def test_verify_says_how_far_the_function_moves():
    a, b, x = mlp(4, 6, 2), mlp(4, 6, 2), torch.randn(5, 4)
    found = align.match(a, b, "weight_matching")
    assert found.verify(b, x) < 1e-12
    assert found.verify(b) < 1e-12
    wrong = to_graph(b, spec=written(6), verify=False)  # its outputs may be permuted
    turned = align.Alignment(wrong, wrong, maps={"output": torch.tensor([1, 0])})
    before, after = (m(x).detach() for m in (b, turned.apply(b)))
    expected = float((before - after).abs().max() / before.abs().max())
    assert turned.verify(b, x) == pytest.approx(expected, rel=1e-4)
    with pytest.raises(ValueError, match=r"Sequential cannot be called with the example input \[\(2, 9\)\]"):
        found.verify(b, torch.randn(2, 9))


def written(hidden):
    """A Spec by hand that forgot to pin the outputs."""
    groups = [Group("input", 4, "network input"), Group("0", hidden), Group("output", 2)]
    params = [
        Param("0.weight", ("0", "input"), "weight", reads=1),
        Param("0.bias", ("0",), "bias"),
        Param("2.weight", ("output", "0"), "weight", reads=1),
        Param("2.bias", ("output",), "bias"),
    ]
    return Spec(groups, params)
