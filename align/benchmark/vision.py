"""Small vision networks of ``timm``, at their published widths and with random weights, on images of 64 × 64.

timm is no dependency: ``pip install --no-deps timm``. It imports names of torchvision, whose wheels do not load beside
a torch of the CPU index, for data and transforms that a forward pass does not need: where there is no torchvision,
modules with these names stand in while timm is imported.
"""

from __future__ import annotations

import enum
import importlib
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from .models import image

SIDE = 64
CONVOLUTIONS = (
    "resnet10t", "regnetx_002", "efficientnet_lite0", "mobilenetv3_small_050", "mobilenetv2_035", "mnasnet_small",
    "ghostnet_050", "lcnet_035", "repvgg_a0", "convnext_atto", "inception_next_atto", "edgenext_xx_small",
    "mobilevit_xxs", "poolformer_s12", "pvt_v2_b0", "fastvit_t8", "tinynet_e",
)  # fmt: skip
"""Take images of any size."""
PATCHES = (
    "vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "mixer_s32_224", "resmlp_12_224", "gmlp_ti16_224",
    "xcit_nano_12_p16_224", "levit_128s",
)  # fmt: skip
"""Are made for images of one size."""
NAMES = (*CONVOLUTIONS, *PATCHES)
_MODULES = (
    "torchvision", "torchvision.transforms", "torchvision.transforms.functional", "torchvision.datasets",
    "torchvision.ops", "torchvision.ops.misc", "torchvision.models", "torchvision.models.feature_extraction",
    "torchvision.utils",
)  # fmt: skip
_INTERPOLATIONS = "NEAREST NEAREST_EXACT BILINEAR BICUBIC BOX HAMMING LANCZOS"


def vision_model(name: str) -> tuple[nn.Module, Tensor]:
    """A network of timm with ten classes, and an image."""
    with _torchvision():
        timm = importlib.import_module("timm")
    sizes = {"img_size": SIDE} if name in PATCHES else {}
    return timm.create_model(name, pretrained=False, num_classes=10, **sizes).eval(), image(SIDE)


class _Names(types.ModuleType):
    """A module that has every name: each is an empty class of modules."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []  # so that it is a package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "InterpolationMode":
            return enum.Enum(name, _INTERPOLATIONS)
        return type(name, (nn.Module,), {})


@contextmanager
def _torchvision() -> Iterator[None]:
    """Inside, torchvision can be imported: the real one, or one of names only."""
    try:
        importlib.import_module("torchvision")
        yield
        return
    except (ImportError, RuntimeError, AttributeError):  # it is not there, or was made for another torch
        before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "torchvision"}
    for name in before:
        del sys.modules[name]
    made = {name: _Names(name) for name in _MODULES}
    for name, module in made.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(made[parent], child, module)
    sys.modules.update(made)
    try:
        yield
    finally:
        for name in made:
            sys.modules.pop(name, None)
