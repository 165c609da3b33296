"""Networks and helpers that several tests share."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from wsgraph import Group, Param, Spec
from wsgraph.testing import Residual


class Net(nn.Module):
    """A module from named parts and a function ``(self, *inputs) -> outputs``."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def mlp(*widths: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), activation())]
    return nn.Sequential(*layers[:-1])


def cnn(norm: bool = True) -> nn.Sequential:
    """Conv, norm, pooling, Flatten with 4 × 4 positions, Linear; the norm looks trained."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
    ]
    layers += [nn.Linear(96, 5), nn.ReLU(), nn.Linear(5, 2)]
    return trained(nn.Sequential(*(layer for layer in layers if norm or not isinstance(layer, nn.BatchNorm2d)))).eval()


def trained(model: nn.Module) -> nn.Module:
    """Norm parameters and statistics away from the 0 and 1 of initialisation, which hide every mistake."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._NormBase | nn.LayerNorm | nn.GroupNorm):
            for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
                if name != "num_batches_tracked":
                    tensor.data.uniform_(0.5, 1.5)
    return model


def vgg(plan: tuple[int, ...], widths: tuple[int, ...], norm: bool = True, hidden: int = 512) -> nn.Sequential:
    """VGG11 is ``(1, 1, 2, 2, 2)``, VGG16 ``(2, 2, 3, 3, 3)``, for 32 × 32 images."""
    layers: list[nn.Module] = []
    channels = 3
    for count, width in zip(plan, widths, strict=True):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), *([nn.BatchNorm2d(width)] if norm else []), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    head = [nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 10)]
    return nn.Sequential(*layers, nn.Flatten(), *head)


def relative_error(a: Tensor, b: Tensor) -> float:
    return float((a - b).detach().abs().max() / a.detach().abs().max())


def free_sizes(spec: Any) -> dict[str, int]:
    return {group.name: group.size for group in spec.free}


def randomised(model: nn.Module, seed: int) -> nn.Module:
    """Other weights for the same architecture."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator).to(parameter)
    return model


def resnet20(width: int, norm: bool = True) -> nn.Module:
    """Three stages of three residual blocks, with trained-looking norms, for 3-channel images."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    channels = width
    for out in (width, width, width, 2 * width, 2 * width, 2 * width, 4 * width, 4 * width, 4 * width):
        layers.append(Residual(channels, out, norm))
        channels = out
    return trained(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))).eval()


def every_edge() -> nn.Module:
    """Every kind of edge and of node feature in one small network, for images of 2 × 4 × 4.

    A norm after a convolution, one in front of another, a residual branch with a depthwise convolution and one with
    groups, pixels after Flatten, and a gate that belongs to no layer.
    """

    def forward(m: Any, x: Tensor) -> Tensor:
        x = torch.relu(m.norm(m.stem(x)))
        inside = torch.relu(m.mid(m.own(nn.functional.gelu(m.up(x)))))
        x = x + m.down(torch.tanh(m.runs(inside)))
        pixels = nn.functional.max_pool2d(torch.relu(m.wide(m.front(x))), 2)
        return m.head(pixels.flatten(1)) + (x * m.gate).mean((1, 2, 3))[:, None]

    return Net(
        forward,
        stem=nn.Conv2d(2, 5, 3, padding=1),
        norm=nn.BatchNorm2d(5),
        up=nn.Conv2d(5, 6, 1),
        own=nn.Conv2d(6, 6, 3, padding=1, groups=6),
        mid=nn.Conv2d(6, 4, 1),
        runs=nn.Conv2d(4, 6, 3, padding=1, groups=2, bias=False),
        down=nn.Conv2d(6, 5, 1),
        front=nn.GroupNorm(1, 5),
        wide=nn.Conv2d(5, 4, 3, padding=1),
        head=nn.Linear(16, 3),
        gate=nn.Parameter(torch.rand(5, 1, 1)),
    ).eval()


def nested_spec(heads=3, dims=2, why="", size=None):
    """``dims`` inside ``heads``."""
    groups = [Group("heads", heads, why), Group("dims", size or heads * dims, parent="heads")]
    return Spec(groups, [Param("w", ("heads",), "bias"), Param("v", ("dims",), "bias")])


def norm_network():
    """A small trained network with BatchNorm after a convolution and after a Linear."""
    return trained(
        nn.Sequential(
            nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(), nn.Linear(20, 6), nn.BatchNorm1d(6)
        )
    )
