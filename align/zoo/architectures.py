"""The networks of the experiments, as plain modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from wsgraph.importing import imported

from .varied import Recurrent, Transformer, convolutional, dense, dense_residual, residual


def seeded(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A new network initialised from ``seed``; the caller's random state stays."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def mlp(inputs: Sequence[int] = (1, 28, 28), hidden: Sequence[int] = (128, 128, 128), classes: int = 10) -> nn.Module:
    """Flatten, then Linear and ReLU; 784-128-128-128-10 by default (the paper's)."""
    widths = [prod(inputs), *hidden]
    layers = [m for a, b in pairwise(widths) for m in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(widths[-1], classes))


def cnn(inputs: Sequence[int] = (3, 32, 32), width: float = 1.0, classes: int = 10) -> nn.Module:
    """The paper's seven convolutions and one Linear (311,690 parameters at full width)."""
    plan: list[int | str] = [16, 32, 32, "pool", 64, 64, "pool", 128, 128, "pool"]
    layers, channels = _convolutions(plan, inputs[0], width, batchnorm=False)
    side = inputs[1] // 8
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * side * side, classes))


VGG_PLANS: dict[int, list[int | str]] = {
    11: [64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool"],
    16: [64, 64, "pool", 128, 128, "pool", 256, 256, 256, "pool", 512, 512, 512, "pool", 512, 512, 512, "pool"],
}


def vgg(depth: int = 11, width: float = 1.0, batchnorm: bool = False, classes: int = 10) -> nn.Module:
    """VGG for 32 × 32 images with the paper's 512-512-10 head (9,750,922 parameters for VGG11 at full width)."""
    if depth not in VGG_PLANS:
        raise ValueError(f"no VGG of depth {depth}; choose one of {', '.join(map(str, VGG_PLANS))}")
    layers, channels = _convolutions(VGG_PLANS[depth], 3, width, batchnorm)
    hidden = max(1, round(512 * width))
    head = [nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes)]
    return nn.Sequential(*layers, nn.Flatten(), *head)


def _convolutions(
    plan: Sequence[int | str], channels: int, width: float, batchnorm: bool
) -> tuple[list[nn.Module], int]:
    layers: list[nn.Module] = []
    for entry in plan:
        if isinstance(entry, str):
            layers.append(nn.MaxPool2d(2))
            continue
        out = max(1, round(entry * width))
        layers += [nn.Conv2d(channels, out, 3, padding=1), *([nn.BatchNorm2d(out)] if batchnorm else []), nn.ReLU()]
        channels = out
    return layers, channels


class Shortcut(nn.Module):
    """relu(body(x) + shortcut(x)), with a projecting shortcut where the shape changes."""

    def __init__(self, body: nn.Module, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = body
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else conv_norm(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution without bias, BatchNorm."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


def resnet20(width: float = 1.0, classes: int = 10) -> nn.Module:
    """The CIFAR ResNet: three stages of three basic blocks, 16-32-64 channels, BatchNorm."""
    channels = max(1, round(16 * width))
    layers: list[nn.Module] = [conv_norm(3, channels, 3), nn.ReLU()]
    for stage in range(3):
        out = max(1, round(16 * width)) * 2**stage
        for k in range(3):
            stride = 2 if stage > 0 and k == 0 else 1
            body = nn.Sequential(conv_norm(channels, out, 3, stride), nn.ReLU(), conv_norm(out, out, 3))
            layers.append(Shortcut(body, channels, out, stride))
            channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def resnet50(classes: int = 1000) -> nn.Module:
    """The ImageNet ResNet-50: bottleneck blocks, 3-4-6-3."""
    layers: list[nn.Module] = [conv_norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        inner = 64 * 2**stage
        for k in range(count):
            stride = 2 if stage > 0 and k == 0 else 1
            body = nn.Sequential(
                conv_norm(channels, inner, 1), nn.ReLU(), conv_norm(inner, inner, 3, stride), nn.ReLU(),
                conv_norm(inner, 4 * inner, 1),
            )  # fmt: skip
            layers.append(Shortcut(body, channels, 4 * inner, stride))
            channels = 4 * inner
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class Sine(nn.Module):
    """sin(ω x)."""

    def __init__(self, frequency: float = 30.0) -> None:
        super().__init__()
        self.frequency = frequency

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(self.frequency * x)


def inr(inputs: int = 1, outputs: int = 1, hidden: int = 32, layers: int = 3, frequency: float = 30.0) -> nn.Module:
    """A sinusoidal network from coordinates to values, with SIREN's initialisation."""
    widths = [inputs, *[hidden] * (layers - 1)]
    modules: list[nn.Module] = []
    for k, (a, b) in enumerate(pairwise(widths)):
        linear = nn.Linear(a, b)
        bound = 1 / a if k == 0 else (6 / a) ** 0.5 / frequency
        nn.init.uniform_(linear.weight, -bound, bound)
        modules += [linear, Sine(frequency)]
    return nn.Sequential(*modules, nn.Linear(widths[-1], outputs))


ARCHITECTURES: dict[str, Callable[..., nn.Module]] = {
    "mlp": mlp,
    "cnn": cnn,
    "vgg": vgg,
    "resnet20": resnet20,
    "resnet50": resnet50,
    "inr": inr,
    "dense": dense,
    "dense_residual": dense_residual,
    "convolutional": convolutional,
    "residual": residual,
    "transformer": Transformer,
    "recurrent": Recurrent,
}
"""Builders by name, for configs."""


def own_class(name: str) -> type[nn.Module]:
    """The class of the user's that ``package.module:Class`` names, imported."""
    found = _named(name)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise ValueError(f"{name!r} is {found!r}, expected a subclass of nn.Module in {name.partition(':')[0]}")
    return found


def own_network(name: str, args: Mapping[str, Any] = MappingProxyType({})) -> nn.Module:
    """The network that one of :data:`ARCHITECTURES` or ``package.module:Name`` makes, in eval mode.

    Args:
        name: Of a class, of a function that makes a network, or of a network.
        args: What it is called with.
    """
    found = ARCHITECTURES.get(name) or _named(name)
    if found is None:
        raise ValueError(f"{name!r}: its module has no such name, expected a class, or a function that makes a network")
    try:
        made = found if isinstance(found, nn.Module) else found(**args)
    except TypeError as error:
        how = f"with {dict(args)}" if args else "without arguments"
        raise ValueError(
            f"{name!r} cannot be called {how} ({error}); name a function of yours that returns the network"
        ) from error
    if not isinstance(made, nn.Module):
        raise ValueError(f"{name!r} makes a {type(made).__name__}, expected an nn.Module")
    return made.eval()


def _named(name: str) -> Any:
    if ":" not in name:
        raise ValueError(
            f"no architecture {name!r}; choose one of {', '.join(ARCHITECTURES)}, or name a class of your own as "
            "package.module:Class"
        )
    return imported(name)
