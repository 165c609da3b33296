"""Architectures whose symmetry the coverage table shows: convolutional and recurrent ones written out, and tiny random
transformers from Hugging Face."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..zoo.architectures import Shortcut, conv_norm, vgg

VOCABULARY = 50


def head(channels: int, classes: int = 10) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


def resnet(counts: Sequence[int], bottleneck: bool, width: float = 1.0, groups: int = 1) -> nn.Module:
    """ResNet-18 is (2, 2, 2, 2), ResNet-50 (3, 4, 6, 3) with bottlenecks, ResNeXt-50 has 32 groups."""
    channels = round(64 * width)
    layers: list[nn.Module] = [conv_norm(3, channels, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for stage, count in enumerate(counts):
        inner = round(64 * width) * 2**stage
        outer = inner * (4 if bottleneck else 1)
        for k in range(count):
            stride = 2 if stage > 0 and k == 0 else 1
            if bottleneck:
                first, *rest = conv_norm(channels, inner, 1), conv_norm(inner, inner, 3, stride, groups)
                body = nn.Sequential(first, nn.ReLU(), *rest, nn.ReLU(), conv_norm(inner, outer, 1))
            else:
                body = nn.Sequential(conv_norm(channels, inner, 3, stride), nn.ReLU(), conv_norm(inner, inner, 3))
            layers.append(Shortcut(body, channels, outer, stride))
            channels = outer
    return nn.Sequential(*layers, *head(channels))


class Appended(nn.Module):
    """[x, body(x)] along channels."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], dim=1)


def densenet(counts: Sequence[int] = (6, 12, 24, 16), growth: int = 32) -> nn.Module:
    """DenseNet-121 by default: every layer reads all that came before it in its block."""
    channels = 2 * growth
    layers: list[nn.Module] = [conv_norm(3, channels, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for stage, count in enumerate(counts):
        for _ in range(count):
            squeeze = nn.Conv2d(channels, 4 * growth, 1, bias=False)
            write = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)
            norms = nn.BatchNorm2d(channels), nn.BatchNorm2d(4 * growth)
            body = nn.Sequential(norms[0], nn.ReLU(), squeeze, norms[1], nn.ReLU(), write)
            layers.append(Appended(body))
            channels += growth
        layers += [nn.BatchNorm2d(channels), nn.ReLU()]
        if stage < len(counts) - 1:
            layers += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)]
            channels //= 2
    return nn.Sequential(*layers, *head(channels))


class Excite(nn.Module):
    """x · σ(W₂ act(W₁ mean(x))): squeeze and excitation."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.up(F.silu(self.down(x.mean((2, 3), keepdim=True)))).sigmoid()


class Inverted(nn.Module):
    """Widen, depthwise convolution, narrow; with a residual where the shape stays."""

    def __init__(self, inputs: int, outputs: int, expand: int, stride: int, act: type[nn.Module], excite: bool) -> None:
        super().__init__()
        inner = inputs * expand
        layers: list[nn.Module] = [conv_norm(inputs, inner, 1), act()] if expand > 1 else []
        layers += [conv_norm(inner, inner, 3, stride, groups=inner), act()]
        layers += [Excite(inner, max(1, inputs // 4))] if excite else []
        self.body = nn.Sequential(*layers, conv_norm(inner, outputs, 1))
        self.residual = inputs == outputs and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


MOBILENET = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, repeats and stride of MobileNetV2's stages."""


def inverted_residuals(
    stages: Sequence[tuple[int, int, int, int]],
    width: float = 1.0,
    act: type[nn.Module] = nn.ReLU6,
    excite: bool = False,
) -> nn.Module:
    """MobileNetV2, or with SiLU and squeeze-and-excitation a network of EfficientNet's blocks."""
    channels = round(32 * width)
    layers: list[nn.Module] = [conv_norm(3, channels, 3, 2), act()]
    for expand, base, count, stride in stages:
        for k in range(count):
            layers.append(Inverted(channels, round(base * width), expand, stride if k == 0 else 1, act, excite))
            channels = round(base * width)
    last = round(1280 * width)
    return nn.Sequential(*layers, conv_norm(channels, last, 1), act(), *head(last))


class UNet(nn.Module):
    """Two levels of convolutions with GroupNorm, transposed convolutions up, skips by concatenation."""

    def __init__(self, width: int = 32, groups: int = 4) -> None:
        super().__init__()

        def double(inputs: int, outputs: int) -> nn.Sequential:
            layers: list[nn.Module] = []
            for channels in (inputs, outputs):
                layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.GroupNorm(groups, outputs), nn.SiLU()]
            return nn.Sequential(*layers)

        self.enter, self.down, self.middle = double(3, width), double(width, 2 * width), double(2 * width, 4 * width)
        self.up2, self.join2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), double(4 * width, 2 * width)
        self.up1, self.join1 = nn.ConvTranspose2d(2 * width, width, 2, 2), double(2 * width, width)
        self.leave = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.enter(x)
        coarse = self.down(F.max_pool2d(fine, 2))
        h = self.up2(self.middle(F.max_pool2d(coarse, 2)))
        h = self.up1(self.join2(torch.cat([coarse, h], dim=1)))
        return self.leave(self.join1(torch.cat([fine, h], dim=1)))


class Tagger(nn.Module):
    """Embedding, two LSTM layers, Linear."""

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(VOCABULARY, hidden // 2), nn.Linear(hidden, 5)
        self.lstm = nn.LSTM(hidden // 2, hidden, 2, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.lstm(self.embed(tokens))[0])


def hugging_face(name: str, **sizes: Any) -> nn.Module:
    """A randomly initialised model of ``transformers`` (an optional dependency) from its configuration."""
    import transformers

    transformers.logging.set_verbosity_error()
    config_of, model_of = HUGGING_FACE[name]
    return getattr(transformers, model_of)(getattr(transformers, config_of)(**sizes))


HUGGING_FACE = {
    "BertModel": ("BertConfig", "BertModel"),
    "GPT2LMHeadModel": ("GPT2Config", "GPT2LMHeadModel"),
    "ViTModel": ("ViTConfig", "ViTModel"),
    "ResNetModel": ("ResNetConfig", "ResNetModel"),
    "LlamaForCausalLM": ("LlamaConfig", "LlamaForCausalLM"),
    "GPTNeoXForCausalLM": ("GPTNeoXConfig", "GPTNeoXForCausalLM"),
    "T5": ("T5Config", "T5ForConditionalGeneration"),
}
"""Name in the table → names of the configuration and of the model."""
LAYERS = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2}


def image(side: int) -> Tensor:
    return torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))


def tokens(length: int = 7) -> Tensor:
    """Words; the first few numbers are those of padding and the like."""
    return torch.randint(5, VOCABULARY, (2, length), generator=torch.Generator().manual_seed(0))


Case = Callable[[float], tuple[nn.Module, Any]]
"""Width (1 for the published one) → a model and an example input; transformers are tiny at any width."""

NETWORKS: dict[str, Case] = {
    "ResNet-18": lambda w: (resnet((2, 2, 2, 2), False, w), image(64)),
    "ResNet-50": lambda w: (resnet((3, 4, 6, 3), True, w), image(64)),
    "ResNeXt-50 (32 groups)": lambda w: (resnet((3, 4, 6, 3), True, 2 * w, max(2, round(32 * w))), image(64)),
    "VGG16-BN": lambda w: (vgg(16, w, batchnorm=True), image(32)),
    "DenseNet-121": lambda w: (densenet(growth=round(32 * w)), image(64)),
    "MobileNetV2": lambda w: (inverted_residuals(MOBILENET, w), image(64)),
    "EfficientNet blocks": lambda w: (inverted_residuals(MOBILENET[:3], w, nn.SiLU, excite=True), image(64)),
    "U-Net with GroupNorm": lambda w: (UNet(round(32 * w)), image(16)),
    "two-layer LSTM": lambda w: (Tagger(round(64 * w)), tokens()),
}
TRANSFORMERS: dict[str, Case] = {
    "BertModel": lambda _: (
        hugging_face("BertModel", vocab_size=VOCABULARY, num_attention_heads=3, max_position_embeddings=16, **LAYERS),
        {"input_ids": tokens()},
    ),
    "GPT2LMHeadModel": lambda _: (
        hugging_face("GPT2LMHeadModel", vocab_size=VOCABULARY, n_positions=16, n_embd=24, n_layer=2, n_head=3),
        {"input_ids": tokens(), "use_cache": False},
    ),
    "ViTModel": lambda _: (
        hugging_face("ViTModel", num_attention_heads=3, image_size=16, patch_size=4, **LAYERS),
        {"pixel_values": image(16)},
    ),
    "ResNetModel": lambda _: (
        hugging_face("ResNetModel", embedding_size=8, hidden_sizes=[16, 24, 32, 40], depths=[1, 1, 1, 1]),
        {"pixel_values": image(32)},
    ),
    "LlamaForCausalLM (6 heads, 2 for keys)": lambda _: (
        hugging_face("LlamaForCausalLM", vocab_size=VOCABULARY, num_attention_heads=6, num_key_value_heads=2, **LAYERS),
        {"input_ids": tokens(), "use_cache": False},
    ),
    "GPTNeoXForCausalLM": lambda _: (  # rotary embeddings on a quarter of the dims
        hugging_face("GPTNeoXForCausalLM", vocab_size=VOCABULARY, num_attention_heads=3, **LAYERS),
        {"input_ids": tokens(), "use_cache": False},
    ),
    "T5": lambda _: (
        hugging_face("T5", vocab_size=VOCABULARY, d_model=24, d_kv=8, d_ff=40, num_layers=2, num_heads=3),
        {"input_ids": tokens(), "decoder_input_ids": tokens(5), "use_cache": False},
    ),
}
CASES = {**NETWORKS, **TRANSFORMERS}


def gpt2() -> tuple[nn.Module, Any]:
    """The published sizes of GPT-2, with random weights: 124 million parameters."""
    model = hugging_face("GPT2LMHeadModel")
    return model, {"input_ids": tokens(16), "use_cache": False}
