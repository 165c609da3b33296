"""Small networks that differ in all that users' networks differ in: activation, norm, shortcuts, kernels, attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "leaky_relu": nn.LeakyReLU,
    "sigmoid": nn.Sigmoid,
}
NORMS_1D: dict[str, Callable[[int], nn.Module]] = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}
NORMS_2D: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm2d,
    "layer": lambda channels: nn.GroupNorm(1, channels),
}


def dense(
    inputs: int | Sequence[int],
    hidden: Sequence[int],
    outputs: int = 10,
    activation: str = "relu",
    norm: str = "none",
) -> nn.Module:
    """Flatten, then Linear, norm, activation, layer after layer."""
    width = prod(inputs) if isinstance(inputs, Sequence) else inputs
    layers: list[nn.Module] = [nn.Flatten()]
    for n in hidden:
        layers += [nn.Linear(width, n), *_norm(NORMS_1D, norm, n), ACTIVATIONS[activation]()]
        width = n
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def _norm(norms: dict[str, Callable[[int], nn.Module]], norm: str, width: int) -> list[nn.Module]:
    return [] if norm == "none" else [norms[norm](width)]


class Add(nn.Module):
    """x + body(x)."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def dense_residual(
    inputs: int | Sequence[int],
    width: int,
    depth: int,
    inner: int,
    outputs: int = 10,
    activation: str = "relu",
    norm: str = "none",
) -> nn.Module:
    """A stream of ``width`` channels to which blocks norm-Linear-activation-Linear add."""

    def block() -> nn.Module:
        up, down = nn.Linear(width, inner), nn.Linear(inner, width)
        return Add(*_norm(NORMS_1D, norm, width), up, ACTIVATIONS[activation](), down)

    first = prod(inputs) if isinstance(inputs, Sequence) else inputs
    last = [*_norm(NORMS_1D, norm, width), nn.Linear(width, outputs)]
    return nn.Sequential(nn.Flatten(), nn.Linear(first, width), *(block() for _ in range(depth)), *last)


def convolutional(
    inputs: Sequence[int],
    channels: Sequence[int],
    kernel: int = 3,
    outputs: int = 10,
    activation: str = "relu",
    norm: str = "none",
    pool: str = "max",
    average: bool = False,
    head: int = 0,
) -> nn.Module:
    """Convolutions with pooling in between, then the mean over positions or Flatten, and a head.

    Args:
        inputs: (C, H, W).
        channels: Of each convolution; every second one is followed by pooling.
        kernel: Side of the kernels.
        outputs: Number of outputs.
        activation, norm: As in :func:`dense`.
        pool: ``max``, ``mean``, or ``stride`` for strided convolutions.
        average: Whether positions are averaged before the head, rather than kept.
        head: Width of a hidden layer of the head; 0 for none.
    """
    before, side = inputs[0], inputs[1]
    layers: list[nn.Module] = []
    for k, n in enumerate(channels):
        shrink = k % 2 == 1 and side >= 4
        stride = 2 if shrink and pool == "stride" else 1
        conv = nn.Conv2d(before, n, kernel, stride, kernel // 2)
        layers += [conv, *_norm(NORMS_2D, norm, n), ACTIVATIONS[activation]()]
        if shrink and pool != "stride":
            layers.append(nn.MaxPool2d(2) if pool == "max" else nn.AvgPool2d(2))
        side = (side + 1) // 2 if stride == 2 else side // 2 if shrink else side
        before = n
    width = before if average else before * side * side
    layers += [*([nn.AdaptiveAvgPool2d(1)] if average else []), nn.Flatten()]
    if head:
        layers += [nn.Linear(width, head), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers, nn.Linear(head or width, outputs))


class Residual(nn.Module):
    """σ(x + conv-norm-σ-conv-norm(x)), or with the norms first and nothing after the sum (``pre``)."""

    def __init__(self, inputs: int, outputs: int, stride: int, activation: str, norm: str, pre: bool) -> None:
        super().__init__()
        first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=norm == "none")
        second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=norm == "none")
        function, last = ACTIVATIONS[activation], ACTIVATIONS[activation]()
        if pre:
            before, between = _norm(NORMS_2D, norm, inputs), _norm(NORMS_2D, norm, outputs)
            self.body = nn.Sequential(*before, function(), first, *between, function(), second)
        else:
            norms = [_norm(NORMS_2D, norm, outputs) for _ in range(2)]
            self.body = nn.Sequential(first, *norms[0], function(), second, *norms[1])
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        self.last = nn.Identity() if pre else last

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.shortcut(x) + self.body(x))


def residual(
    inputs: Sequence[int],
    channels: Sequence[int],
    blocks: int = 1,
    outputs: int = 10,
    activation: str = "relu",
    norm: str = "batch",
    pre: bool = False,
) -> nn.Module:
    """A ResNet: one stage of ``blocks`` residual blocks for every entry of ``channels``, each halving the sides."""
    before = channels[0]
    stem = [nn.Conv2d(inputs[0], before, 3, 1, 1, bias=norm == "none"), *_norm(NORMS_2D, norm, before)]
    layers: list[nn.Module] = [*stem, ACTIVATIONS[activation]()]
    for stage, n in enumerate(channels):
        for k in range(blocks):
            stride = 2 if stage > 0 and k == 0 else 1
            layers.append(Residual(before, n, stride, activation, norm, pre))
            before = n
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, outputs))


class Attention(nn.Module):
    """Self-attention with one fused projection to queries, keys and values, or three."""

    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.heads = heads
        if fused:
            self.qkv = nn.Linear(width, 3 * width)
        else:
            self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.fused = fused

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(x).chunk(3, dim=-1) if self.fused else (self.q(x), self.k(x), self.v(x))
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(-2, -3) for p in parts)
        attended = F.scaled_dot_product_attention(q, k, v)
        return self.out(attended.transpose(-2, -3).flatten(-2))


class Transformer(nn.Module):
    """A small ViT: patches, learned positions, blocks of attention and MLP with the norms first, mean of the tokens."""

    def __init__(
        self,
        inputs: Sequence[int],
        patch: int = 2,
        width: int = 32,
        depth: int = 2,
        heads: int = 2,
        inner: int = 64,
        outputs: int = 10,
        activation: str = "gelu",
        fused: bool = True,
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(inputs[0], width, patch, patch)
        tokens = (inputs[1] // patch) * (inputs[2] // patch)
        self.positions = nn.Parameter(torch.randn(tokens, width) * 0.1)
        self.blocks = nn.Sequential(*(self._block(width, heads, inner, activation, fused) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, outputs)

    @staticmethod
    def _block(width: int, heads: int, inner: int, activation: str, fused: bool) -> nn.Module:
        up, down = nn.Linear(width, inner), nn.Linear(inner, width)
        return nn.Sequential(
            Add(nn.LayerNorm(width), Attention(width, heads, fused)),
            Add(nn.LayerNorm(width), up, ACTIVATIONS[activation](), down),
        )

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).mT + self.positions
        return self.head(self.norm(self.blocks(tokens)).mean(dim=-2))


class Recurrent(nn.Module):
    """An LSTM or GRU that reads an image row by row, and a head on its last state."""

    def __init__(
        self, inputs: Sequence[int], width: int = 32, layers: int = 1, kind: str = "lstm", outputs: int = 10
    ) -> None:
        super().__init__()
        cell = {"lstm": nn.LSTM, "gru": nn.GRU}[kind]
        self.cell = cell(inputs[0] * inputs[2], width, layers, batch_first=True)
        self.head = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cell(x.transpose(1, 2).flatten(2))[0][:, -1])


INITIALISATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "he": lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu"),
    "xavier": nn.init.xavier_uniform_,
    "orthogonal": nn.init.orthogonal_,
}
"""Ways to draw the weights of Linear and Conv2d, besides torch's own (``default``)."""


def initialise(model: nn.Module, how: str) -> nn.Module:
    """Draw the weights of Linear and Conv2d anew; biases become zero."""
    for module in model.modules() if how != "default" else ():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            INITIALISATIONS[how](module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model
