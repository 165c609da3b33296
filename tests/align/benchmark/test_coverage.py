"""The symmetry of published architectures: as large as theory allows, right, and recovered by the aligners.

Convolutional and recurrent networks are an eighth as wide as published. Expected groups are written ``size: count``;
``(runs, length): count`` is a group nested in ``runs`` blocks (heads, GroupNorm groups) of ``length`` elements.
"""

from collections import Counter

import pytest
import torch

from align.benchmark.coverage import METHODS, recovered
from align.benchmark.models import CASES
from wsgraph import Permutation, to_graph, trace
from wsgraph.testing import assert_function_preserved

WIDTH = {"VGG16-BN": 1 / 16, "DenseNet-121": 1 / 16, "two-layer LSTM": 1 / 4, "EfficientNet blocks": 1 / 4}
EXPECTED = {
    # Four streams and one hidden layer in each of eight blocks.
    "ResNet-18": {8: 1 + 2, 16: 1 + 2, 32: 1 + 2, 64: 1 + 2},
    # A stem, four streams of 4 × the width, two hidden layers in each of sixteen blocks.
    "ResNet-50": {8: 1 + 6, 16: 8, 32: 1 + 12, 64: 1 + 6, 128: 1, 256: 1},
    # The same with twice the width; the hidden layers of a block stand in the runs of its grouped convolution.
    "ResNeXt-50 (32 groups)": {
        16: 1,
        64: 1,
        128: 1,
        256: 1,
        512: 1,
        4: 16,
        (4, 4): 6,
        (4, 8): 8,
        (4, 16): 12,
        (4, 32): 6,
    },
    "VGG16-BN": {4: 2, 8: 2, 16: 3, 32: 6 + 2},
    # Each of 58 layers writes 2 channels of its own and has 8 hidden ones; three transitions and the stem.
    "DenseNet-121": {2: 58, 8: 58 + 1, 16: 1, 32: 1, 4: 1},
    # A stem, a stream for each width (blocks that keep it), and the wide layers: one in each block, and the last.
    "MobileNetV2": {
        4: 1 + 1,
        2: 1,
        3: 1,
        8: 1,
        12: 1 + 1,
        20: 1,
        40: 1,
        18: 2,
        24: 3,
        48: 4,
        72: 3,
        120: 3,
        160: 1,
    },
    # The same in its first three stages, and what each block squeezes to: two channels, or one, which is not free.
    "EfficientNet blocks": {8: 1 + 1, 4: 1, 6: 1, 24: 1, 36: 2, 48: 2, 320: 1, 2: 3},
    # Ten norms of four groups: four of them of single channels, the others nested; two transposed convolutions.
    "U-Net with GroupNorm": {4: 4 + 6 + 1, 8: 1, (4, 2): 4, (4, 4): 2},
    # Embedding and two hidden states: the four gates of a layer move as one.
    "two-layer LSTM": {8: 1, 16: 2},
    # Heads; queries and keys, values, in each; the hidden layer: in both layers. The stream is the output.
    "BertModel": {3: 2, (3, 8): 4, 40: 2},
    "ViTModel": {3: 2, (3, 8): 4, 40: 2},
    # The stream is free.
    "GPT2LMHeadModel": {24: 1, 3: 2, (3, 8): 4, 96: 2},
    # Key heads, query heads among them, values; rotary embeddings tell the dims of queries and keys apart.
    "LlamaForCausalLM (6 heads, 2 for keys)": {24: 1, 2: 2, (2, 3): 2, (2, 4): 2, 40: 2},
    # The stream, heads, the hidden layer. Queries, keys and values lie head by head; where some dims
    # are rotated, those of the three are not alike, which pins them.
    "GPTNeoXForCausalLM": {24: 1, 3: 2, 40: 2},
    # Position biases share the heads of all layers of a stack; each cross-attention has its own.
    "T5": {3: 2 + 2, (3, 8): 2 * (2 + 2 + 2), 40: 4},
    # Stem, a stream for each stage but the last, which is the output, two hidden layers per block.
    "ResNetModel": {8: 1 + 2, 16: 1, 24: 1, 32: 1, 4: 2, 6: 2, 10: 2},
}


DEEP = ("DenseNet-121", "ResNeXt-50 (32 groups)", "ResNet-50")
"""Many layers of few kinds: their symmetry is found here, planted permutations by the coverage command."""


def sizes(spec):
    """Free groups counted by size, nested ones by runs and length."""
    runs = {g.name: spec.groups[g.parent].size if g.parent else None for g in spec.free}
    return Counter(g.size if runs[g.name] is None else (runs[g.name], g.size // runs[g.name]) for g in spec.free)


def build(name):
    torch.manual_seed(0)
    model, example = CASES[name](WIDTH.get(name, 1 / 8))
    return model.eval(), example


@pytest.mark.parametrize("name", CASES)
def test_symmetry_and_planted_permutation(name):
    if "Model" in name or name.startswith(("Llama", "GPTNeoX", "T5")):
        pytest.importorskip("transformers")
    model, example = build(name)
    spec = trace(model, example)
    assert sizes(spec) == EXPECTED[name]
    if name in DEEP:
        return
    assert_function_preserved(model, example, spec)
    a = to_graph(model, spec=spec)
    b = Permutation.random(spec, torch.Generator().manual_seed(1)).apply(a)
    assert {method: recovered(a, b, method) for method in METHODS} == dict.fromkeys(METHODS, True)
