"""The laws as functions: call them on your own networks and encoders, as our tests do.

Tolerances come from one table; each function raises ``AssertionError`` with the size of the violation and returns it
otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from .graph import WeightGraph, to_graph
from .inputs import ExampleInput, infer_example_input
from .network import node_offsets
from .permutation import Permutation
from .spec import Spec
from .tracing import trace
from .verify import moved, relative

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}


def assert_function_preserved(
    model: nn.Module, x: ExampleInput | None = None, spec: Spec | None = None, generator: torch.Generator | None = None
) -> float:
    """A random element of the symmetry group leaves ``model`` the same function, in float64.

    Args:
        model: The network; evaluated in eval mode on a float64 copy.
        x: Example input; inferred when omitted.
        spec: Its symmetry; traced when omitted.

    Returns:
        The largest difference of outputs, relative to the largest output.
    """
    __tracebackhide__ = True
    if x is None:
        x = infer_example_input(model)
    spec = spec or trace(model, x)
    error = moved(model, Permutation.random(spec, generator), x)
    assert error <= TOLERANCE[torch.float64], (
        f"permuting {type(model).__name__} changes its outputs: relative error {error:.1e}"
    )
    return error


def assert_equivariant(
    encoder: Callable[[WeightGraph], Tensor], graph: WeightGraph, generator: torch.Generator | None = None
) -> float:
    """F(g·v) = g·F(v): permuting a network permutes its node embeddings and changes nothing else.

    Args:
        encoder: WeightGraph → node embeddings ``[N, d]``.
        graph: A network.
    """
    __tracebackhide__ = True
    permutation = Permutation.random(graph.spec, generator)
    expected = encoder(graph)[node_index(permutation).to(graph.x.device)]
    got = encoder(permutation.apply(graph))
    error = relative(expected, got)
    assert error <= TOLERANCE[got.dtype], f"the encoder is not equivariant: relative error {error:.1e}"
    return error


def node_index(permutation: Permutation) -> Tensor:
    """The permutation of all N nodes of a graph, as one index tensor."""
    spec, offsets = permutation.spec, node_offsets(permutation.spec)
    parts = [permutation.maps.get(g.name, torch.arange(g.size)).cpu() + offsets[g.name] for g in spec.groups.values()]
    return torch.cat(parts)


class Residual(nn.Module):
    """relu(norm(conv(relu(norm(conv(x))))) + shortcut(x)), with a projection where the width changes."""

    def __init__(self, inputs: int, outputs: int, norm: bool) -> None:
        super().__init__()
        stride = 1 if inputs == outputs else 2

        def conv(a: int, b: int, kernel: int, stride: int) -> nn.Module:
            layer = nn.Conv2d(a, b, kernel, stride, kernel // 2, bias=not norm)
            return nn.Sequential(layer, nn.BatchNorm2d(b)) if norm else layer

        self.body = nn.Sequential(conv(inputs, outputs, 3, stride), nn.ReLU(), conv(outputs, outputs, 3, 1))
        self.shortcut = nn.Identity() if inputs == outputs else conv(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def random_architecture(seed: int) -> tuple[nn.Module, Tensor]:
    """A small random MLP, CNN, VGG or ResNet with trained-looking norm statistics, and an input it accepts."""
    rng = random.Random(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, x = rng.choice([_mlp, _cnn, _vgg, _resnet])(rng)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                for tensor in (module.weight.data, module.bias.data, module.running_mean, module.running_var):
                    tensor.uniform_(0.5, 1.5)  # type: ignore[union-attr]
    return model.eval(), x


_ACTIVATIONS: tuple[type[nn.Module], ...] = (nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.LeakyReLU)


def _mlp(rng: random.Random) -> tuple[nn.Module, Tensor]:
    widths = [rng.randint(2, 12) for _ in range(rng.randint(1, 8) + 1)]
    activation = rng.choice(_ACTIVATIONS)
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [
            nn.Linear(a, b, bias=rng.random() < 0.8),
            *([nn.LayerNorm(b)] if rng.random() < 0.2 else []),
            activation(),
        ]
    return nn.Sequential(*layers[:-1]), torch.randn(3, widths[0])


def _cnn(rng: random.Random) -> tuple[nn.Module, Tensor]:
    channels, norm, activation = rng.randint(1, 3), rng.random() < 0.5, rng.choice(_ACTIVATIONS)
    x = torch.randn(2, channels, 12, 12)
    layers: list[nn.Module] = []
    for _ in range(rng.randint(1, 3)):
        width, kernel = rng.randint(2, 8), rng.choice([1, 3, 5])
        layers.append(nn.Conv2d(channels, width, kernel, padding=kernel // 2, dilation=1, bias=rng.random() < 0.7))
        layers += [nn.BatchNorm2d(width)] * norm + [activation()]
        if rng.random() < 0.4:
            layers += [nn.Conv2d(width, width, 3, padding=1, groups=width), activation()]
        if rng.random() < 0.5:
            layers.append(rng.choice([nn.MaxPool2d, nn.AvgPool2d])(2))
        channels = width
    body = nn.Sequential(*layers, *([nn.AdaptiveAvgPool2d(1)] if rng.random() < 0.3 else []), nn.Flatten())
    hidden = rng.randint(2, 8)
    head = [nn.Linear(body(x).shape[1], hidden), activation(), nn.Dropout(0.3), nn.Linear(hidden, 3)]
    return nn.Sequential(*body, *head), x


def _vgg(rng: random.Random) -> tuple[nn.Module, Tensor]:
    width, norm = rng.choice([2, 4]), rng.random() < 0.5
    plan = rng.choice([(1, 1, 2, 2, 2), (2, 2, 3, 3, 3)])  # VGG11 and VGG16, narrow
    channels, layers = 3, []
    for stage, count in enumerate(plan):
        for _ in range(count):
            out = width * min(2**stage, 8)
            layers += [nn.Conv2d(channels, out, 3, padding=1), *([nn.BatchNorm2d(out)] if norm else []), nn.ReLU()]
            channels = out
        layers.append(nn.MaxPool2d(2))
    head = [nn.Flatten(), nn.Linear(channels, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 10)]
    return nn.Sequential(*layers, *head), torch.randn(2, 3, 32, 32)


def _resnet(rng: random.Random) -> tuple[nn.Module, Tensor]:
    norm, widths = rng.random() < 0.5, [rng.randint(2, 6) for _ in range(2)]
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 3, padding=1)]
    channels = widths[0]
    for width in widths:
        for _ in range(rng.randint(1, 2)):
            layers.append(Residual(channels, width, norm))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 4)), torch.randn(
        2, 3, 8, 8
    )


def random_graph(seed: int, dtype: torch.dtype = torch.float64) -> WeightGraph:
    """The graph of a random architecture in the given dtype."""
    model, x = random_architecture(seed)
    return to_graph(model.to(dtype), x.to(dtype))
