"""Crops are pieces of the image, rotations are rotations, and all of it repeats with the seed."""

import pytest
import torch

from align.data.augment import augment_stl10, random_crop, random_rotation, rotate


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_stl10_shapes_and_seed(dtype: torch.dtype) -> None:
    images = torch.rand(6, 3, 96, 96, dtype=dtype) * 2 - 1
    a, b = augment_stl10(images, generator()), augment_stl10(images, generator())
    assert a.shape == (6, 3, 32, 32)
    assert a.dtype == dtype
    assert torch.equal(a, b)
    assert not torch.equal(a, augment_stl10(images, generator(1)))
    assert float(a.abs().max()) <= 1 + 1e-5


def test_a_crop_is_a_piece_of_the_image() -> None:
    images = torch.arange(4 * 2 * 9 * 7).reshape(4, 2, 9, 7).float()
    crops = random_crop(images, 5, generator())
    assert crops.shape == (4, 2, 5, 5)
    places = set()
    for crop, image in zip(crops, images, strict=True):
        row, column = divmod(int((image[0] == crop[0, 0, 0]).nonzero()[0] @ torch.tensor([7, 1])), 7)
        assert torch.equal(crop, image[:, row : row + 5, column : column + 5])
        places.add((row, column))
    assert len(places) > 1


def test_every_place_of_a_crop_comes_up() -> None:
    images = torch.arange(16.0).reshape(1, 1, 4, 4).expand(500, -1, -1, -1)
    corners = random_crop(images, 3, generator())[:, 0, 0, 0]
    assert corners.unique().tolist() == [0, 1, 4, 5]


def test_a_crop_larger_than_the_image_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot crop 64 × 64 from images of 32 × 32"):
        random_crop(torch.zeros(1, 3, 32, 32), 64)


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_quarter_turns_are_exact(turns: int, dtype: torch.dtype) -> None:
    images = torch.rand(3, 2, 8, 8, dtype=dtype)
    got = rotate(images, torch.full((3,), 90.0 * turns))
    torch.testing.assert_close(got, images.rot90(turns, (2, 3)), atol=1e-5, rtol=0)


def test_images_that_are_not_square_keep_their_angles() -> None:
    images = torch.zeros(1, 1, 5, 9)
    images[0, 0, 2, 6] = 1  # two to the right of the middle
    got = rotate(images, torch.tensor([90.0]), fill=0.0)
    assert divmod(int(got.argmax()), 9) == (0, 4)  # two above it


def test_uncovered_corners_are_black_and_the_middle_stays() -> None:
    rotated = rotate(torch.ones(1, 1, 33, 33), torch.tensor([20.0]))
    assert float(rotated[0, 0, 0, 0]) == -1
    torch.testing.assert_close(rotated[0, 0, 12:21, 12:21], torch.ones(9, 9))


def test_angles_are_within_bounds_and_differ() -> None:
    images = torch.full((200, 1, 33, 33), -1.0)
    images[:, 0, 16, 26] = 1  # ten to the right: its height after the turn gives the angle
    weight = random_rotation(images, 20.0, generator())[:, 0] + 1
    rows = 16 - torch.arange(33.0)
    height = (weight.sum(2) * rows).sum(1) / weight.sum((1, 2))
    angles = torch.rad2deg(torch.asin((height / 10).clamp(-1, 1)))
    assert float(angles.abs().max()) < 21
    assert float(angles.min()) < -15
    assert float(angles.max()) > 15
