"""The aligner that comes with the package answers what it answered before.

Its scores of two networks that a formula gives are in ``bundled_scores.json``. When the checkpoint is replaced, write
them anew: ``PYTHONPATH=.:tests python tests/align/test_bundled.py``.
"""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from networks import every_edge
from torch import nn

from align import DeepAlign
from wsgraph import to_graph

STORED = Path(__file__).with_name("bundled_scores.json")
EXAMPLE = torch.zeros(2, 2, 4, 4)


def by_formula(phase):
    """Weights sin(phase + k²), which no generator and no platform changes; variances are positive."""
    model, start = every_edge(), 0
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point():
            k = torch.arange(start, start + tensor.numel(), dtype=torch.float64)
            values = torch.sin(phase + k.square()).view(tensor.shape)
            tensor.copy_(1 + values / 2 if "running_var" in name else values)
            start += tensor.numel()
    return to_graph(model, EXAMPLE)


def scores():
    return DeepAlign()(by_formula(0.0), by_formula(0.3)).scores


def test_scores_of_the_bundled_aligner_are_the_stored_ones():
    stored = {name: torch.tensor(rows) for name, rows in json.loads(STORED.read_text()).items()}
    found = scores()
    assert found.keys() == stored.keys()
    for name, s in found.items():
        torch.testing.assert_close(s, stored[name], rtol=0, atol=1e-3)


def relu_networks(dtype, inputs=30, classes=5):
    sizes = (inputs, 24, 24, classes)

    def one(phase):
        model = nn.Sequential(*(m for n, k in pairwise(sizes) for m in (nn.Linear(n, k), nn.ReLU())))[:-1].to(dtype)
        with torch.no_grad():
            for k, p in enumerate(model.parameters()):
                index = torch.arange(p.numel(), dtype=torch.float64).reshape(p.shape)
                p.copy_(torch.sin(phase + k + index**2) / p.shape[-1] ** 0.5)
        return model

    return one(0.1), one(0.4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_what_inputs_and_outputs_are_called_does_not_matter(dtype):
    """Flat or image, inputs shuffled alike, classes renamed alike: the same permutations."""
    aligner = DeepAlign().to(dtype)
    a, b = relu_networks(dtype)
    plain = aligner(to_graph(a), to_graph(b)).permutation
    images = [to_graph(nn.Sequential(nn.Flatten(), *m), torch.randn(2, 5, 6, dtype=dtype)) for m in (a, b)]
    assert [m.tolist() for m in aligner(*images).permutation.maps.values()] == [m.tolist() for m in plain.maps.values()]
    inputs, outputs = torch.randperm(30), torch.randperm(5)
    for model in (a, b):
        with torch.no_grad():
            model[0].weight.copy_(model[0].weight[:, inputs].clone())
            model[-1].weight.copy_(model[-1].weight[outputs].clone())
            model[-1].bias.copy_(model[-1].bias[outputs].clone())
    assert aligner(to_graph(a), to_graph(b)).permutation == plain


if __name__ == "__main__":
    rows = {name: [[round(x, 4) for x in row] for row in s.tolist()] for name, s in scores().items()}
    STORED.write_text(json.dumps(rows) + "\n")
