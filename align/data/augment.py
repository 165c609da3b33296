"""Random changes of images, a whole batch at a time."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

BLACK = -1.0
"""A black pixel after normalisation with mean 0.5 and standard deviation 0.5."""


def augment_stl10(
    images: Tensor,
    generator: torch.Generator | None = None,
    *,
    crop: int = 64,
    size: int = 32,
    degrees: float = 20.0,
    fill: float = BLACK,
) -> Tensor:
    """The paper's augmentation of STL-10: a random 64 × 64 crop, resized to 32 × 32, rotated by U(-20°, 20°).

    Every image of the batch gets its own crop and angle; corners that a rotation uncovers become ``fill``.

    Args:
        images: Float images [N, C, H, W].
        generator: Makes it repeatable; the global one of torch by default.
        crop: Side of the random square.
        size: Side of the result.
        degrees: The largest angle, either way.
        fill: The value of what is outside the image.

    Returns:
        Float images [N, C, size, size].
    """
    cropped = random_crop(images, crop, generator)
    small = F.interpolate(cropped, size=(size, size), mode="bilinear", antialias=True)
    return random_rotation(small, degrees, generator, fill=fill)


def random_crop(images: Tensor, side: int, generator: torch.Generator | None = None) -> Tensor:
    """A square of each image [N, C, H, W] at its own random place: [N, C, side, side], its pixels unchanged."""
    n, _, height, width = images.shape
    if side > min(height, width):
        raise ValueError(f"cannot crop {side} × {side} from images of {height} × {width}")
    top = torch.randint(height - side + 1, (n,), generator=generator)
    left = torch.randint(width - side + 1, (n,), generator=generator)
    along = torch.arange(side)
    rows = (top[:, None] + along).to(images.device)  # [N, side]
    columns = (left[:, None] + along).to(images.device)
    which = torch.arange(n, device=images.device)[:, None, None]
    # Indexing with a slice in between puts the channels last.
    return images[which, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def random_rotation(
    images: Tensor, degrees: float, generator: torch.Generator | None = None, *, fill: float = BLACK
) -> Tensor:
    """Each image [N, C, H, W] turned about its middle by its own angle in U(-degrees, degrees)."""
    angles = (torch.rand(len(images), generator=generator) * 2 - 1) * degrees
    return rotate(images, angles, fill=fill)


def rotate(images: Tensor, angles: Tensor, *, fill: float = BLACK) -> Tensor:
    """Images [N, C, H, W] turned counter-clockwise by ``angles`` [N] in degrees, bilinear."""
    height, width = images.shape[2:]
    radians = (angles * (math.pi / 180)).to(images)
    cos, sin, zero = radians.cos(), radians.sin(), torch.zeros_like(radians)
    # From places in the result to places in the image, both in units of half a side.
    rows = (cos, -sin * height / width, zero), (sin * width / height, cos, zero)
    theta = torch.stack([torch.stack(row, -1) for row in rows], 1)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images - fill, grid, align_corners=False) + fill
