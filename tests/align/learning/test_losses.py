import pytest
import torch
from torch import nn

from align.learning import losses
from align.learning.step import correlated, stack
from wsgraph import Permutation, to_graph


def networks(zoo, *numbers):
    return stack([zoo.tensors(n) for n in numbers])


def test_supervised_loss_is_smallest_at_the_label_and_blind_to_swapping():
    label = torch.stack([torch.randperm(5) for _ in range(3)])
    right = 10 * nn.functional.one_hot(label, 5).double()
    wrong = right.roll(1, dims=-1)
    assert losses.supervised({"g": right}, {"g": label}) < 0.01 < losses.supervised({"g": wrong}, {"g": label})
    swapped = losses.supervised({"g": wrong.mT}, {"g": label.argsort(-1)})
    torch.testing.assert_close(swapped, losses.supervised({"g": wrong}, {"g": label}))


def test_supervised_loss_is_the_mean_of_the_groups():
    scores = {name: torch.randn(2, n, n) for name, n in (("g", 3), ("h", 5))}
    labels = {name: torch.stack([torch.randperm(s.shape[1]) for _ in range(2)]) for name, s in scores.items()}
    each = [losses.supervised({k: scores[k]}, labels) for k in scores]
    torch.testing.assert_close(losses.supervised(scores, labels), sum(each) / 2)


def test_alignment_loss_is_relative_in_every_pair_and_blind_to_statistics():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1)).eval()
    graph = to_graph(model)
    weights = {k: v.detach() for k, v in graph.tensors.items()}
    loud = {k: 10 * v for k, v in weights.items()}
    other = {k: v if k.endswith(("running_mean", "running_var")) else 2 * v for k, v in weights.items()}
    wild = {k: v + 7 if k.endswith(("running_mean", "running_var")) else v for k, v in loud.items()}
    assert losses.alignment(stack([weights, loud]), stack([other, wild]), graph.spec) == 0.5  # the mean of 1 and 0


def test_alignment_loss_is_zero_only_for_the_right_permutation(tiny_zoo):
    a = networks(tiny_zoo, 0, 1)
    assert losses.alignment(a, a, tiny_zoo.spec) == 0
    assert losses.alignment(a, networks(tiny_zoo, 1, 2), tiny_zoo.spec) > 0.1


def test_activation_loss_is_smallest_where_neurons_fire_alike(tiny_zoo):
    a, x = networks(tiny_zoo, 0, 1), tiny_zoo.task.samples("train")[0][:32]
    graphs = [tiny_zoo.graph(n) for n in (0, 1)]
    planted = [Permutation.random(g.spec, torch.Generator().manual_seed(k)) for k, g in enumerate(graphs)]
    b = stack([p.apply(g).tensors for p, g in zip(planted, graphs, strict=True)])
    found = correlated(tiny_zoo, a, b, x)
    assert set(found) == {g.name for g in tiny_zoo.spec.free}
    labels = {name: torch.stack([p.inverse().maps[name] for p in planted]) for name in found}
    right = {name: nn.functional.one_hot(label, label.shape[-1]).to(x) for name, label in labels.items()}
    wrong = {name: p.roll(1, dims=-1) for name, p in right.items()}
    silent = sum(float((c.abs().amax(-1) < 0.5).float().mean()) for c in found.values()) / len(found)  # neurons at rest
    assert losses.activation(right, found) == pytest.approx(silent, abs=1e-3)
    assert losses.activation(wrong, found) > losses.activation(right, found) + 0.5


def test_lmc_loss_is_the_task_loss_half_way(tiny_zoo):
    a, b = networks(tiny_zoo, 0, 1), networks(tiny_zoo, 2, 3)
    x, y = (t[:32] for t in tiny_zoo.task.samples("train"))
    expected = []
    for k in range(2):
        middle = {n: (a[n][k] + b[n][k]) / 2 for n in a}
        out = torch.func.functional_call(tiny_zoo.template, middle, (x,))
        expected.append(nn.functional.cross_entropy(out, y))
    found = losses.lmc(tiny_zoo.template, a, b, x, y.expand(2, -1))
    torch.testing.assert_close(found, torch.stack(expected).mean())


def test_lmc_loss_of_convolutions_is_the_task_loss_half_way():
    template = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 4))
    draw = lambda: {k: torch.randn_like(v) for k, v in template.state_dict().items()}  # noqa: E731
    a, b = [draw(), draw()], [draw(), draw()]
    x, y = torch.randn(6, 2, 4, 4), torch.randint(4, (2, 6))
    expected = []
    for k in range(2):
        middle = {n: (a[k][n] + b[k][n]) / 2 for n in a[k]}
        expected.append(nn.functional.cross_entropy(torch.func.functional_call(template, middle, (x,)), y[k]))
    torch.testing.assert_close(losses.lmc(template, stack(a), stack(b), x, y), torch.stack(expected).mean())


def test_lmc_loss_takes_targets_of_each_pair(wave_zoo):
    a = networks(wave_zoo, 0, 2)
    x, own = wave_zoo.task.samples("train", 0)
    other = wave_zoo.task.samples("train", 1)[1]
    loss = nn.functional.mse_loss
    right = losses.lmc(wave_zoo.template, a, a, x, torch.stack([own, other]), loss)
    swapped = losses.lmc(wave_zoo.template, a, a, x, torch.stack([other, own]), loss)
    assert right < 0.1 * swapped


def test_batchnorm_takes_the_statistics_of_the_batch():
    """Running statistics that are far off must not matter, and the template's modes and statistics stay."""
    template = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).eval()
    tensors = {k: v.detach().clone() for k, v in template.state_dict().items()}
    wild = {**tensors, "1.running_mean": tensors["1.running_mean"] + 100}
    x, y = torch.randn(16, 4), torch.randint(3, (2, 16))
    a, moved = stack([tensors, tensors]), stack([wild, wild])
    moved["0.weight"].requires_grad_()
    loss = losses.lmc(template, a, moved, x, y)
    loss.backward()
    torch.testing.assert_close(loss, losses.lmc(template, a, a, x, y))
    assert not template[1].training
    assert template[1].running_mean.abs().max() == 0
    assert moved["0.weight"].grad.abs().max() > 0


def test_norm_statistics_carry_no_gradient():
    """They follow the permutation but are no reason for it, also where they are used as they are."""
    template = nn.Sequential(nn.Conv1d(2, 3, 1), nn.InstanceNorm1d(3, affine=True, track_running_stats=True)).eval()
    a = stack([{k: v.detach() for k, v in template.state_dict().items()}] * 2)
    moved = {k: v.clone().requires_grad_(v.is_floating_point()) for k, v in a.items()}
    x, y = torch.randn(6, 2, 4), torch.randint(3, (2, 6, 4))
    losses.lmc(template, a, moved, x, y).backward()
    assert {k for k, v in moved.items() if v.grad is not None} == {"0.weight", "0.bias", "1.weight", "1.bias"}


@pytest.mark.parametrize("layer", [nn.Linear(4, 6), nn.Conv2d(4, 6, 1)], ids=["together", "one by one"])
def test_norms_count_no_batches_in_the_given_networks(layer):
    norm = nn.BatchNorm1d(6) if isinstance(layer, nn.Linear) else nn.BatchNorm2d(6)
    template = nn.Sequential(layer, norm, nn.Flatten(), nn.Linear(6, 3)).eval()
    a = stack([{k: v.detach() for k, v in template.state_dict().items()}] * 2)
    x = torch.randn(8, 4) if isinstance(layer, nn.Linear) else torch.randn(8, 4, 1, 1)
    losses.lmc(template, a, a, x, torch.randint(3, (2, 8)))
    assert not a["1.num_batches_tracked"].any()
