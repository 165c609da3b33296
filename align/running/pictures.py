r"""Pictures that nobody took: dead leaves, for want of images.

Discs of all sizes and colours fall on one another and on a grey ground. What remains to be seen has edges,
plain areas and occlusions, about as photographs have them, and trained convolutions respond to it much as they do to
photographs; white noise leaves them cold. Nothing of any data set is in them: an aligner that shows them to networks
needs no data, and gives none away.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from wsgraph.origin import Origin
from wsgraph.randomness import seeded

from .batches import for_model

PICTURES = "pictures"
"""These inputs in place of data."""
SAMPLES, FEWEST = 2_000, 256
"""Of them, unless another number is asked for: of small ones, and of the largest."""
SIDE = 32
"""Above which they are large."""
AT_ONCE = 256
"""Pictures that are painted together."""
DISCS = 60
"""That fall on a picture."""
SMALLEST, LARGEST = 1 / 24, 1 / 2
"""Radii, relative to the shorter side; how many there are falls with the square of the radius."""
SHAPES = 8
"""Whose pictures are kept in memory."""
SHARED = 0.9
"""How much of a colour is brightness, which all channels have in common."""
_PLAIN: dict[str, Any] = {"dtype": torch.float32, "device": "cpu"}
"""Of all numbers here, so that the caller's defaults do not change what is drawn."""


def pictures_for(
    network: nn.Module, example_input: Any = None, samples: int | None = None, generator: torch.Generator | None = None
) -> Tensor:
    """Pictures of the size that a network reads, on its device and in its dtype: ``[samples, *shape of one input]``."""
    shape = Origin(network, example_input).shape
    if shape is None or not is_image(shape):
        reads = "what is not one tensor of real numbers" if shape is None else f"inputs of shape {shape}"
        raise ValueError(
            f"the network reads {reads}, and pictures are of shape (channels, height, width): pass data='noise', "
            "data='dreams' or inputs, or an example_input of that shape"
        )
    count = enough(SAMPLES, shape, FEWEST) if samples is None else samples
    return for_model(pictures(count, shape, generator), network)


def enough(count: int, shape: tuple[int, ...], fewest: int) -> int:
    """How many of that shape take the place of ``count``: of large ones fewer, with as many places in all."""
    return min(count, max(fewest, count * SIDE**2 // (shape[1] * shape[2])))


@lru_cache(SHAPES)
@torch.inference_mode(False)  # they outlive the caller's mode
def shown(count: int, shape: tuple[int, ...]) -> Tensor:
    """Always the same ones: ``[count, *shape]``."""
    return pictures(count, shape, seeded())


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether inputs have channels, and two sides that a disc can be seen on."""
    return len(shape) == 3 and min(shape[1:]) > 1


def pictures(count: int, shape: tuple[int, ...], draw: torch.Generator | None = None) -> Tensor:
    """Dead leaves, every channel of mean 0 and variance 1: ``[count, channels, height, width]``."""
    channels, *sides = shape
    discs = [_discs(count, channels, sides, draw) for _ in range(DISCS)]
    places = [torch.arange(side, **_PLAIN) for side in sides]
    across = torch.stack(torch.meshgrid(*places, indexing="ij"))  # [2, height, width]
    found = torch.zeros(count, *shape, **_PLAIN)
    for rows in torch.arange(count).split(AT_ONCE):
        canvas = found[rows]
        for radius, centre, colour in discs:
            inside = (across - centre[rows, :, None, None]).square().sum(1) < radius[rows, None, None].square()
            canvas = torch.where(inside[:, None], colour[rows, :, None, None], canvas)
        found[rows] = canvas
    found -= found.mean((0, 2, 3), keepdim=True)
    return found.div_(found.std((0, 2, 3), keepdim=True).clamp_min(1e-6))


def _discs(count: int, channels: int, sides: Sequence[int], draw: torch.Generator | None) -> Sequence[Tensor]:
    """One for each picture: radius ``[count]``, centre ``[count, 2]``, colour of variance 1 ``[count, channels]``."""
    u, place = (torch.rand(*size, generator=draw, **_PLAIN) for size in ((count,), (count, 2)))
    bright, own = (torch.randn(count, n, generator=draw, **_PLAIN) for n in (1, channels))
    radius = min(sides) / (1 / LARGEST + u * (1 / SMALLEST - 1 / LARGEST))
    centre = (1.25 * place - 0.125) * torch.tensor(sides, **_PLAIN)
    return radius, centre, SHARED * bright + (1 - SHARED**2) ** 0.5 * own
