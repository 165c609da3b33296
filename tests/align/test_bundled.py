"""The aligner that comes with the package answers what it answered before.

Its scores of two networks that a formula gives are in ``bundled_scores.json``. When the checkpoint is replaced, write
them anew: ``PYTHONPATH=.:tests python tests/align/test_bundled.py``.
"""

import json
from pathlib import Path

import torch
from networks import every_edge

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


if __name__ == "__main__":
    rows = {name: [[round(x, 4) for x in row] for row in s.tolist()] for name, s in scores().items()}
    STORED.write_text(json.dumps(rows) + "\n")
