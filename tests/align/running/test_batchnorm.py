import pytest
import torch
from networks import mlp, norm_network
from torch import nn
from torch.utils.data import DataLoader

from align.running.batches import BATCH
from align.running.batchnorm import reset_batchnorm


@pytest.mark.parametrize("count", [40, BATCH + 1, 3 * BATCH - 100])
def test_statistics_after_a_reset_are_averages_over_all_samples(count):
    x = torch.randn(count, 4) * torch.tensor([1.0, 2, 3, 4]) + 5
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)).eval()
    found = reset_batchnorm(model, None, x)[0]
    torch.testing.assert_close(found.running_mean, x.mean(0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found.running_var, x.var(0), rtol=0.02, atol=0)
    assert found.momentum == 0.1


def test_small_last_batches_do_not_count_more():
    x = torch.cat([torch.randn(60, 4), 100 + torch.randn(3, 4)])
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)).eval()
    found = reset_batchnorm(model, None, DataLoader(x, batch_size=20))[0]  # type: ignore[arg-type]
    torch.testing.assert_close(found.running_mean, x.mean(0), rtol=1e-4, atol=1e-4)


def test_a_reset_network_normalises_its_own_data():
    model, x = norm_network(), torch.randn(300, 2, 4, 4)
    with torch.no_grad():
        out = reset_batchnorm(model, None, x).eval()(x)
    torch.testing.assert_close(out.mean(0), model[-1].bias.detach(), atol=2e-3, rtol=2e-3)
    torch.testing.assert_close(out.std(0), model[-1].weight.detach(), atol=1e-2, rtol=1e-2)


def test_without_batchnorm_a_reset_is_a_copy():
    model = mlp(3, 4, 2)
    x = torch.randn(5, 3)
    torch.testing.assert_close(reset_batchnorm(model, None, x)(x), model(x))
