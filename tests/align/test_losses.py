import pytest
import torch
from torch import nn

from align import losses
from align.step import stack


def networks(zoo, *numbers):
    return stack([zoo.tensors(n) for n in numbers])


def test_supervised_loss_is_smallest_at_the_label_and_blind_to_swapping():
    label = torch.stack([torch.randperm(5) for _ in range(3)])
    right = 10 * nn.functional.one_hot(label, 5).double()
    wrong = right.roll(1, dims=-1)
    assert losses.supervised({"g": right}, {"g": label}) < 0.01 < losses.supervised({"g": wrong}, {"g": label})
    swapped = losses.supervised({"g": wrong.mT}, {"g": label.argsort(-1)})
    torch.testing.assert_close(swapped, losses.supervised({"g": wrong}, {"g": label}))


def test_alignment_loss_is_zero_only_for_the_right_permutation(tiny_zoo):
    a = networks(tiny_zoo, 0, 1)
    assert losses.alignment(a, a, tiny_zoo.spec) == 0
    assert losses.alignment(a, networks(tiny_zoo, 1, 2), tiny_zoo.spec) > 0.1


def test_lmc_loss_is_the_task_loss_on_the_line(tiny_zoo):
    a, b, w = networks(tiny_zoo, 0, 1), networks(tiny_zoo, 2, 3), torch.tensor([0.3, 0.8])
    x, y = (t[:32] for t in tiny_zoo.task.samples("train"))
    expected = []
    for k in range(2):
        middle = {n: w[k] * a[n][k] + (1 - w[k]) * b[n][k] for n in a}
        out = torch.func.functional_call(tiny_zoo.template, middle, (x,))
        expected.append(nn.functional.cross_entropy(out, y))
    found = losses.lmc(tiny_zoo.template, a, b, w, x, y.expand(2, -1))
    torch.testing.assert_close(found, torch.stack(expected).mean())


def test_lmc_loss_of_convolutions_is_the_task_loss_on_the_line():
    template = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 4))
    draw = lambda: {k: torch.randn_like(v) for k, v in template.state_dict().items()}  # noqa: E731
    a, b = [draw(), draw()], [draw(), draw()]
    w, x, y = torch.tensor([0.3, 0.8]), torch.randn(6, 2, 4, 4), torch.randint(4, (2, 6))
    expected = []
    for k in range(2):
        middle = {n: w[k] * a[k][n] + (1 - w[k]) * b[k][n] for n in a[k]}
        expected.append(nn.functional.cross_entropy(torch.func.functional_call(template, middle, (x,)), y[k]))
    torch.testing.assert_close(losses.lmc(template, stack(a), stack(b), w, x, y), torch.stack(expected).mean())


def test_lmc_loss_takes_targets_of_each_pair(wave_zoo):
    a, w = networks(wave_zoo, 0, 2), torch.tensor([0.5, 0.5])
    x, own = wave_zoo.task.samples("train", 0)
    other = wave_zoo.task.samples("train", 1)[1]
    loss = nn.functional.mse_loss
    right = losses.lmc(wave_zoo.template, a, a, w, x, torch.stack([own, other]), loss)
    swapped = losses.lmc(wave_zoo.template, a, a, w, x, torch.stack([other, own]), loss)
    assert right < 0.1 * swapped


def test_batchnorm_takes_the_statistics_of_the_batch():
    """Running statistics that are far off must not matter, and the template's modes and statistics stay."""
    template = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).eval()
    tensors = {k: v.detach().clone() for k, v in template.state_dict().items()}
    wild = {**tensors, "1.running_mean": tensors["1.running_mean"] + 100}
    x, y = torch.randn(16, 4), torch.randint(3, (2, 16))
    a, moved = stack([tensors, tensors]), stack([wild, wild])
    moved["0.weight"].requires_grad_()
    loss = losses.lmc(template, a, moved, torch.tensor([0.2, 0.6]), x, y)
    loss.backward()
    torch.testing.assert_close(loss, losses.lmc(template, a, a, torch.tensor([0.2, 0.6]), x, y))
    assert not template[1].training
    assert template[1].running_mean.abs().max() == 0
    assert moved["0.weight"].grad.abs().max() > 0


@pytest.mark.parametrize("layer", [nn.Linear(4, 6), nn.Conv2d(4, 6, 1)], ids=["together", "one by one"])
def test_norms_count_no_batches_in_the_given_networks(layer):
    norm = nn.BatchNorm1d(6) if isinstance(layer, nn.Linear) else nn.BatchNorm2d(6)
    template = nn.Sequential(layer, norm, nn.Flatten(), nn.Linear(6, 3)).eval()
    a = stack([{k: v.detach() for k, v in template.state_dict().items()}] * 2)
    x = torch.randn(8, 4) if isinstance(layer, nn.Linear) else torch.randn(8, 4, 1, 1)
    losses.lmc(template, a, a, torch.tensor([0.2, 0.6]), x, torch.randint(3, (2, 8)))
    assert not a["1.num_batches_tracked"].any()
