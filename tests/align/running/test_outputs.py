import pytest
import torch
from networks import mlp
from torch.nn import functional as F

from align.running.outputs import evaluate
from wsgraph.modules import tensors_of


def test_evaluate_weights_batches_by_their_size():
    model = mlp(4, 3)
    x, y = torch.randn(30, 4), torch.randint(3, (30,))
    loss, hits = evaluate(model, [tensors_of(model)], F.cross_entropy, [(x[:29], y[:29]), (x[29:], y[29:])])
    assert float(loss[0]) == pytest.approx(float(F.cross_entropy(model(x), y).detach()), rel=1e-5)
    assert float(hits[0]) == pytest.approx(float((model(x).argmax(1) == y).float().mean()))
