"""Images in folders, a folder per class, as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from ..progress import progress
from .dataset import Split, resize, size_of

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
"""What pillow is allowed to read: no format that calls other programs."""


def read_images(folder: Path, shape: Sequence[int] | None = None) -> Split:
    """Pixels between 0 and 1, float32 [N, C, H, W], and classes int64 [N], numbered in the order of their names.

    Args:
        folder: Holds a folder of images for each class.
        shape: (C, H, W) to resize to; by default the images stay as they are, and must be of one size.
    """
    size = None if shape is None else size_of(shape)
    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    files = [(path, k) for k, name in enumerate(classes) for path in sorted(name.iterdir()) if _is_image(path)]
    if not files:
        raise ValueError(
            f"{folder} holds no images in folders of their own, expected a folder per class with files of "
            f"{', '.join(ENDINGS)}"
        )
    images: list[Tensor] = []
    with progress(f"reading {folder}", len(files)) as step:
        for path, _ in files:
            image = _pixels(path)
            images.append(image if size is None else resize(image[None], size)[0])
            if images[-1].shape != images[0].shape:
                raise ValueError(
                    f"{path} has the shape {tuple(image.shape)} and {files[0][0]} {tuple(images[0].shape)} (channels, "
                    "height, width); give one for all: data.shape=[3,32,32] in a training, --example-input 2,3,32,32 "
                    "in wsalign"
                )
            step()
    return torch.stack(images), torch.tensor([k for _, k in files])


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS


def _pixels(path: Path) -> Tensor:
    try:
        with Image.open(path, formats=FORMATS) as image:
            grey = image.mode in ("1", "L", "I", "I;16", "LA")
            pixels = np.asarray(image.convert("L" if grey else "RGB"))
    except (OSError, SyntaxError, ValueError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} is not a readable image ({error}); remove it or save it again") from error
    channels_first = pixels[None] if grey else pixels.transpose(2, 0, 1)
    return torch.from_numpy(channels_first.astype(np.float32) / 255)
