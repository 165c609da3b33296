"""Refined answers: better ones for plain MLPs, the laws as before, and nothing for other networks."""

from dataclasses import replace

import pytest
import torch
from networks import mlp
from torch import nn

import align
from align import DeepAlign, DeepAlignConfig
from align.projection import refinement
from align.projection.refinement import can_refine, refined
from align.testing import assert_laws
from wsgraph import EncoderConfig, Permutation, to_graph

ENCODER = EncoderConfig(hidden=16, output=24, messages=16, sweeps=2)


def aligner(dtype=torch.float64, steps=10):
    torch.manual_seed(1)
    return DeepAlign(DeepAlignConfig(ENCODER, refinement=steps)).to(dtype).eval()


def two(*widths, activation=nn.ReLU, dtype=torch.float64):
    return [to_graph(mlp(*widths, activation=activation).to(dtype)) for _ in range(2)]


@pytest.mark.parametrize("activation", [nn.ReLU, nn.GELU, nn.Tanh])
@pytest.mark.parametrize("widths", [(6, 12, 11, 3), (30, 24, 1), (5, 9, 9, 9, 2)])
def test_laws(activation, widths):
    a, b = two(*widths, activation=activation)
    assert_laws(aligner(), a, b)
    plain, better = (aligner(steps=n)(a, b) for n in (0, 10))
    assert any(not torch.equal(s, better.scores[k]) for k, s in plain.scores.items())  # or there is no law to test


def test_pairs_in_one_call_get_the_answers_of_single_calls():
    pairs = [two(6, 12, 11, 3) for _ in range(3)]
    f = aligner()
    together = f([a for a, _ in pairs], [b for _, b in pairs])
    for (a, b), found in zip(pairs, together, strict=True):
        for name, s in f(a, b).scores.items():
            torch.testing.assert_close(found.scores[name], s)


@torch.no_grad()
def half_way(a, b, x, permutation):
    """KL of the mean answer of both networks and the answer of their average."""
    answers = (a(x).softmax(1) + b(x).softmax(1)) / 2
    middle = align.merge(a, permutation.apply(b))(x)
    return float((torch.xlogy(answers, answers) - answers * middle.log_softmax(1)).sum(1).mean())


def test_the_average_says_more_nearly_what_both_networks_say(pair):
    a, b, (x, _) = pair
    bundled, plain = DeepAlign(), DeepAlign()
    plain.config = replace(plain.config, refinement=0)
    told = [half_way(a, b, x, f(to_graph(a), to_graph(b)).permutation) for f in (plain, bundled)]
    assert told[1] < 0.8 * told[0]


def test_regressors_are_refined_too():
    torch.manual_seed(0)
    a, b = two(4, 16, 16, 1)
    x = torch.randn(500, 4, dtype=torch.float64)

    @torch.no_grad()
    def error(permutation):
        first, second = (mlp(4, 16, 16, 1).double() for _ in range(2))
        first.load_state_dict(a.tensors), second.load_state_dict(b.tensors)
        middle = align.merge(first, permutation.apply(second))
        return float((middle(x) - (first(x) + second(x)) / 2).square().mean())

    assert error(aligner(steps=25)(a, b).permutation) < 0.9 * error(aligner(steps=0)(a, b).permutation)


def test_scores_that_cannot_be_improved_stay():
    a, _ = two(6, 12, 11, 3)
    g = Permutation.random(a.spec)
    scores = {name: m[None] for name, m in ((n, g.inverse().matrix(n).double()) for n in g.maps)}
    for name, s in refined([a.network], [g.apply(a).network], scores, 5).items():
        assert torch.equal(s, scores[name])


def test_who_is_refined(monkeypatch):
    (a, b), (c, _) = two(4, 6, 2), two(4, 7, 2)
    assert can_refine(a.network, b.network)
    assert not can_refine(a.network, c.network)  # of another width
    norm = to_graph(nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 2)))
    assert not can_refine(norm.network, norm.network)
    one, other = two(4, 1, 2)
    assert not can_refine(one.network, other.network)  # nothing to permute
    with pytest.warns(UserWarning, match="read off the tensors"):
        unknown = to_graph(dict(b.tensors))
    assert not can_refine(a.network, unknown.network)  # whose activations nobody knows
    monkeypatch.setattr(refinement, "WIDEST", 35)
    assert not can_refine(a.network, b.network)


def test_only_answers_are_refined():
    a, b = two(6, 12, 3)
    f, plain = aligner(), aligner(steps=0)
    expected = plain(a, b).scores["0"]
    assert not torch.equal(f(a, b).scores["0"], expected)
    assert torch.equal(f.stacked_scores([a], [b])["0"][0], expected)
    assert f.train()(a, b).scores["0"].requires_grad  # what training differentiates


def test_modes_of_the_caller_do_not_matter():
    a, b = two(6, 12, 3, dtype=torch.float32)
    f = aligner(torch.float32)
    expected = f(a, b).permutation
    with torch.inference_mode():
        assert f(a, b).permutation == expected
        inside = [to_graph(mlp(6, 12, 3)) for _ in range(2)]
        assert f(*inside).permutation.maps.keys() == {"0"}
    with torch.no_grad():
        assert f(a, b).permutation == expected
    before = torch.random.get_rng_state()
    f(a, b)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_all_is_where_the_networks_are():
    a, b = (to_graph(mlp(6, 12, 3).to("meta")).network for _ in range(2))
    middle = refinement._Middle([a], [b])
    assert middle.distance({"0": torch.ones(1, 12, 12, device="meta")}, 0).is_meta


def test_steps_are_a_number_of_them():
    with pytest.raises(ValueError, match="refinement is -1, expected a number of steps"):
        DeepAlignConfig(refinement=-1)
