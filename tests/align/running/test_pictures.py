"""Pictures that nobody took."""

import pytest
import torch
from networks import mlp
from torch import nn

import align
from align.running.pictures import SAMPLES, is_image, pictures, pictures_for, shown
from wsgraph.randomness import seeded


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 20), (2, 8, 8)])
def test_every_channel_has_mean_0_and_variance_1(shape):
    x = pictures(50, shape, seeded(1))
    assert x.shape == (50, *shape)
    torch.testing.assert_close(x.mean((0, 2, 3)), torch.zeros(shape[0]), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std((0, 2, 3)), torch.ones(shape[0]))


def test_neighbours_are_alike_and_so_are_channels():
    x = pictures(200, (3, 32, 32), seeded(1))
    along = lambda steps: float((x[..., steps:] * x[..., :-steps]).mean())  # noqa: E731
    assert 0.7 < along(1) < 1
    assert along(1) > along(4) + 0.1 > along(16) + 0.2
    assert 0.6 < float((x[:, 0] * x[:, 1]).mean()) < 0.95
    assert float((x[:100] * x[100:]).mean().abs()) < 0.1


def test_areas_are_plain_and_edges_sharp():
    step = (pictures(200, (1, 32, 32), seeded(1)).diff(dim=-1)).abs()
    assert float((step == 0).float().mean()) > 0.5
    assert float((step > 0.5).float().mean()) > 0.1


def test_the_same_are_shown_whatever_the_callers_default_dtype():
    plain = pictures(4, (1, 9, 7), seeded(1))
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(pictures(4, (1, 9, 7), seeded(1)), plain)
    finally:
        torch.set_default_dtype(torch.float32)


def test_large_ones_are_few_and_painted_in_turns(monkeypatch):
    pool = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    drawn = lambda *a: torch.zeros(a[0], *a[1])  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr("align.running.pictures.pictures", drawn)
        counts = [len(pictures_for(pool, torch.zeros(2, 1, side, side))) for side in (8, 32, 64, 512)]
    assert counts == [SAMPLES, SAMPLES, SAMPLES // 4, 256]
    whole = pictures(7, (2, 8, 9), seeded(1))
    monkeypatch.setattr("align.running.pictures.AT_ONCE", 3)
    assert torch.equal(pictures(7, (2, 8, 9), seeded(1)), whole)


def test_the_same_are_shown_always():
    assert shown(4, (3, 8, 8)) is shown(4, (3, 8, 8))
    assert not torch.equal(pictures(4, (3, 8, 8), seeded(1)), pictures(4, (3, 8, 8), seeded(2)))
    assert [is_image(s) for s in ((3, 8, 8), (1, 1, 8), (8, 8), (784,))] == [True, False, False, False]


def test_as_data_of_methods_that_run_networks():
    a, b = (nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 3)).double() for _ in range(2))
    options = {"example_input": torch.zeros(2, 1, 8, 8, dtype=torch.float64)}
    assert pictures_for(a, **options).shape == (SAMPLES, 1, 8, 8)
    assert pictures_for(a, **options).dtype == torch.float64
    found = align.match(a, b, "activation_matching", data="pictures", samples=50, seed=3, **options)
    drawn = pictures_for(a, options["example_input"], 50, seeded(3))
    assert found.permutation == align.match(a, b, "activation_matching", data=drawn, **options).permutation
    tried = align.match(a, b, data="pictures", samples=200, **options).candidates
    assert len(tried) > 3
    assert all(c.score is not None for c in tried)


@pytest.mark.parametrize(
    ("network", "example", "said"),
    [
        (mlp(5, 4, 2), None, r"reads inputs of shape \(5,\)"),
        (nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 2)), torch.zeros(2, 3, dtype=torch.long), "not one tensor"),
    ],
)
def test_what_reads_no_images_is_told_what_to_pass(network, example, said):
    with pytest.raises(ValueError, match=f"{said}.*data='noise'"):
        align.match(network, network, "activation_matching", data="pictures", example_input=example)
