from math import cos, pi, sin

import pytest
import torch

from wsgraph.nn.codes import CODE_SIZE, grid_codes


@pytest.mark.parametrize(
    ("shape", "channels", "grid"),
    [((5,), 5, ()), ((2, 3, 4), 2, (3, 4)), ((2, 3), 2, (3,)), ((2, 2, 2, 3, 4), 4, (2, 3, 4))],
    ids=["index", "image", "sequence", "more than three"],
)
def test_codes_are_cosines_of_the_place_and_waves_of_the_channel(shape, channels, grid):
    """From the last axis of the grid to the first; elements are numbered row by row."""
    places = torch.cartesian_prod(torch.arange(channels), *map(torch.arange, grid)).view(-1, 1 + len(grid))
    codes = grid_codes(shape, torch.zeros(1, dtype=torch.float64))
    assert codes.shape == (len(places), CODE_SIZE)
    for code, (channel, *place) in zip(codes.tolist(), places.tolist(), strict=True):
        axes = list(zip(place, grid, strict=True))[::-1]
        waves = [cos(pi * k * (x + 0.5) / n) for x, n in axes for k in range(1, 9)]
        angles = [channel * 10 ** (-3 * k / 7) for k in range(8)]
        expected = [*waves, *[0.0] * (24 - len(waves)), *map(sin, angles), *map(cos, angles)]
        assert code == pytest.approx(expected, abs=1e-12)
