import pytest
import torch
from networks import Net, mlp, norm_network
from torch import nn

import align
from align.merging.repair import _output_moments, repair
from align.running.batchnorm import reset_batchnorm


def test_template_and_tensors_are_untouched():
    model, x = norm_network(), torch.randn(30, 2, 4, 4)
    model[1].eval()
    before = {k: t.clone() for k, t in model.state_dict().items()}
    tensors = {k: t.detach() + 1 if t.is_floating_point() else t for k, t in model.state_dict().items()}
    kept = {k: t.clone() for k, t in tensors.items()}
    for copy in (reset_batchnorm(model, tensors, x), repair(model, [model, model], x)):
        assert [m.training for m in copy.modules()] == [m.training for m in model.modules()]
        assert [m.momentum for m in copy.modules() if hasattr(m, "momentum")] == [0.1, 0.1]
        copy[0].weight.data.zero_()
    assert all(torch.equal(t, before[k]) for k, t in model.state_dict().items())
    assert all(torch.equal(t, kept[k]) for k, t in tensors.items())


NETWORKS = {
    "mlp": (lambda: mlp(4, 12, 10, 3), (4,)),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Conv2d(6, 8, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 7), nn.ReLU(),
            nn.Linear(7, 3),
        ),
        (2, 4, 4),
    ),
    # as many positions as features: channels must not be guessed from shapes
    "sequence": (lambda: mlp(4, 6, 6, 3), (6, 4)),
    "head first": (
        lambda: Net(
            lambda m, x: m.head(torch.relu(m.b(torch.relu(m.a(x))))),
            head=nn.Linear(8, 3), b=nn.Linear(9, 8), a=nn.Linear(4, 9),
        ),
        (4,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_statistics_of_the_repaired_network_are_the_goal(name):
    make, shape = NETWORKS[name]
    a, b, x = make(), make(), torch.randn(400, *shape)
    merged = align.merge(a, b)
    fixed = repair(merged, [a, b], x)
    with torch.no_grad():
        left, right, plain, found = (_output_moments(m, x) for m in (a, b, merged, fixed))
    *hidden, last = found  # in order of execution
    assert last == {"head first": "head", "mlp": "4", "cnn": "7", "sequence": "4"}[name]
    for layer in hidden:
        for k, which in ((0, "mean"), (1, "std")):
            goal = (left[layer][k] + right[layer][k]) / 2
            torch.testing.assert_close(found[layer][k], goal, atol=0.02, rtol=0.02, msg=f"{which} of {layer}")
    assert float((plain[hidden[-1]][1] / left[hidden[-1]][1]).mean()) < 0.95  # what averaging had done
    weights = {k: v for k, v in merged.state_dict().items() if k.startswith(last)}
    assert all(torch.equal(fixed.state_dict()[k], v) for k, v in weights.items())  # outputs are left alone


def test_repair_of_equal_endpoints_changes_nothing():
    a, x = mlp(4, 8, 3), torch.randn(400, 4)
    torch.testing.assert_close(repair(a, [a, a], x)(x), a(x), atol=1e-2, rtol=1e-2)


def test_batchnorm_networks_are_repaired_and_reset():
    a, b, x = norm_network(), norm_network(), torch.randn(300, 2, 4, 4)
    merged = align.merge(a, b, repair="repair", data=x).eval()
    with torch.no_grad():
        out = merged(x)
    torch.testing.assert_close(out.mean(0), merged[-1].bias.detach(), atol=1e-3, rtol=1e-3)


def test_layers_without_bias_are_left_to_the_others():
    a, b = (nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 2)) for _ in range(2))
    merged = align.merge(a, b)
    fixed = repair(merged, [a, b], torch.randn(50, 4))
    assert torch.equal(fixed[0].weight, merged[0].weight)


def test_dead_channels_stay_finite():
    a, b = mlp(4, 6, 3), mlp(4, 6, 3)
    for m in (a, b):
        m[0].weight.data[0] = 0
    assert all(p.isfinite().all() for p in repair(align.merge(a, b), [a, b], torch.randn(80, 4)).parameters())
