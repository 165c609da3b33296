"""The paper's definitions, by hand, and the conveniences around them."""

import pytest
import torch
from networks import Net, mlp, trained
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import align
from align.judging.barrier import TOGETHER
from align.running.batchnorm import reset_batchnorm
from align.running.interpolation import interpolate
from wsgraph.modules import tensors_of


def scalar(value):
    """A network that answers with its one weight."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, value)
    return model


ONE = torch.ones(1, 1), torch.zeros(1, 1)


def double_well(out, _target):
    """L(w) = (w² − 1)²: minima at ±1, a hill of height 1 between them."""
    return (out.square() - 1).square().mean()


def test_hand_computed_double_well():
    """With a = 1 and b = −1 the line is w = 2λ − 1 and ψ(λ) = 16 λ² (1 − λ)²: barrier 1, area 16/30."""
    found = align.barrier(scalar(1.0), scalar(-1.0), double_well, ONE, points=101)
    lam = torch.linspace(0, 1, 101)
    torch.testing.assert_close(found.psi, 16 * lam**2 * (1 - lam) ** 2, atol=1e-5, rtol=0)
    assert float(found.barrier) == pytest.approx(1, abs=1e-5)
    assert float(found.auc) == pytest.approx(16 / 30, abs=1e-3)
    assert float(found) == float(found.barrier)
    assert found.accuracy is None


def test_straight_line_between_unequal_ends_is_subtracted():
    """L = w² between a = 3 and b = 0: ψ = 9λ² − 9λ ≤ 0, so barrier and area are bounded at zero."""
    found = align.barrier(scalar(3.0), scalar(0.0), lambda o, _: o.square().mean(), ONE, points=11)
    lam = torch.linspace(0, 1, 11)
    torch.testing.assert_close(found.psi, 9 * lam**2 - 9 * lam, atol=1e-5, rtol=0)
    assert float(found.psi.min()) < -2
    assert float(found.barrier) == 0
    assert float(found.auc) == 0
    assert float(found.psi[0]) == float(found.psi[-1]) == 0


def test_lambda_one_is_a():
    found = align.barrier(scalar(3.0), scalar(0.0), lambda o, _: o.square().mean(), ONE, points=3)
    assert found.points.tolist() == [0, 0.5, 1]
    assert found.loss.tolist() == [0, 2.25, 9]


def test_a_hundred_pairs_in_one_call_equal_one_by_one():
    a, b = ([mlp(4, 6, 3) for _ in range(100)] for _ in range(2))
    data = torch.randn(50, 4), torch.randint(3, (50,))
    together = align.barrier(a, b, data=data, points=5)
    assert together.loss.shape == together.accuracy.shape == (100, 5)
    assert together.barrier.shape == together.auc.shape == (100,)
    for k in (0, 1, 42, 99):
        single = align.barrier(a[k], b[k], data=data, points=5)
        torch.testing.assert_close(together.loss[k], single.loss)
        torch.testing.assert_close(together.accuracy[k], single.accuracy)
        torch.testing.assert_close(together.barrier[k], single.barrier)
    assert float(together) == pytest.approx(float(together.barrier.mean()))
    assert repr(together).startswith("Barrier(")
    assert "mean of 100 pairs" in repr(together)


def test_big_networks_are_taken_in_turn(monkeypatch):
    a, b, data = mlp(4, 6, 3), mlp(4, 6, 3), (torch.randn(20, 4), torch.randint(3, (20,)))
    whole = align.barrier(a, b, data=data)
    monkeypatch.setattr("align.judging.barrier.TOGETHER", 60)
    torch.testing.assert_close(align.barrier(a, b, data=data).loss, whole.loss)
    assert TOGETHER > 1e6


def test_ends_are_the_networks_themselves_with_accuracy():
    a, b = mlp(4, 6, 3), mlp(4, 6, 3)
    x, y = torch.randn(2000, 4), torch.randint(3, (2000,))
    found = align.barrier(a, b, data=(x, y))
    assert len(found.points) == 25
    for k, model in ((0, b), (-1, a)):
        out = model(x).detach()
        assert float(found.loss[k]) == pytest.approx(float(F.cross_entropy(out, y)), rel=1e-4)
        assert float(found.accuracy[k]) == pytest.approx(float((out.argmax(1) == y).float().mean()), abs=1e-6)


def test_loaders_and_lists():
    a, b = mlp(4, 6, 3), mlp(4, 6, 3)
    x, y = torch.randn(37, 4), torch.randint(3, (37,))
    expected = align.barrier(a, b, data=(x, y), points=3).loss
    for data in (DataLoader(TensorDataset(x, y), batch_size=10), [(x[:30], y[:30]), (x[30:], y[30:])]):
        torch.testing.assert_close(align.barrier(a, b, data=data, points=3).loss, expected)


def norm_network():
    return trained(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)))


def test_batchnorm_is_interpolated_or_measured_anew():
    a, b = norm_network(), norm_network()
    x, y = torch.randn(400, 4), torch.randint(3, (400,))
    plain = align.barrier(a, b, data=(x, y), points=5)
    reset = align.barrier(a, b, data=(x, y), points=5, reset_batchnorm=x)
    assert not torch.allclose(plain.loss, reset.loss)
    tensors = interpolate(tensors_of(a), tensors_of(b), 0.5)
    expected = reset_batchnorm(a, {k: t.detach() for k, t in tensors.items()}, x).eval()
    assert float(reset.loss[2]) == pytest.approx(float(F.cross_entropy(expected(x), y).detach()), rel=1e-4)
    several = align.barrier([a, a], [b, b], data=(x, y), points=5, reset_batchnorm=x)
    torch.testing.assert_close(several.loss, reset.loss.expand(2, 5))


def test_networks_in_training_mode_are_judged_in_eval_mode_and_stay():
    a, b = norm_network(), norm_network()
    a[1].eval()
    before = {k: t.clone() for k, t in a.state_dict().items()}
    data = torch.randn(60, 4), torch.randint(3, (60,))
    found = align.barrier(a, b, data=data, points=3)
    assert [m.training for m in a.modules()] == [True, True, False, True, True, True]
    assert b.training
    assert all(torch.equal(t, before[k]) for k, t in a.state_dict().items())
    torch.testing.assert_close(align.barrier(a.eval(), b.eval(), data=data, points=3).loss, found.loss)


def test_tied_weights():
    def make():
        model = Net(
            lambda m, x: m.c(torch.relu(m.b(torch.relu(m.a(x))))),
            a=nn.Linear(4, 4),
            b=nn.Linear(4, 4),
            c=nn.Linear(4, 3),
        )
        model.b.weight = model.a.weight
        return model

    a, b = make(), make()
    data = torch.randn(20, 4), torch.randint(3, (20,))
    found = align.barrier(a, b, data=data, points=3)
    assert float(found.loss[-1]) == pytest.approx(float(F.cross_entropy(a(data[0]), data[1]).detach()), rel=1e-4)


def test_half_precision_and_sequences():
    a, b = mlp(4, 6, 3).to(torch.bfloat16), mlp(4, 6, 3).to(torch.bfloat16)
    found = align.barrier(a, b, data=(torch.randn(20, 4), torch.randint(3, (20,))), points=3)
    assert found.loss.isfinite().all()
    sequence = Net(lambda m, x: m.a(x), a=nn.Linear(4, 3))  # [batch, time, classes]: no accuracy, but a loss
    x, y = torch.randn(6, 5, 4), torch.randint(3, (6, 5))
    loss = lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten())  # noqa: E731
    assert align.barrier(sequence, sequence, loss, (x, y), points=3).accuracy is None


def test_several_classes_at_once_have_no_accuracy():
    """Integer targets ``[batch, classes]`` are not the number of one class."""
    a, b = mlp(4, 6, 3), mlp(4, 6, 3)
    x, y = torch.randn(20, 4), torch.randint(2, (20, 3))
    loss = lambda o, t: F.binary_cross_entropy_with_logits(o, t.float())  # noqa: E731
    found = align.barrier(a, b, loss, (x, y), points=3)
    assert found.accuracy is None
    assert float(found.loss[-1]) == pytest.approx(float(loss(a(x), y).detach()), rel=1e-4)


def test_errors():
    a, data = mlp(4, 5, 3), (torch.randn(8, 4), torch.randint(3, (8,)))
    with pytest.raises(ValueError, match=r"barrier needs data: a pair \(inputs, targets\)"):
        align.barrier(a, a)
    with pytest.raises(ValueError, match="data has no targets"):
        align.barrier(a, a, data=data[0])
    with pytest.raises(ValueError, match="got points=1, expected at least 2"):
        align.barrier(a, a, data=data, points=1)
    with pytest.raises(ValueError, match="2 networks a but 1 networks b; expected pairs"):
        align.barrier([a, a], [a], data=data)
    with pytest.raises(ValueError, match="0 networks a but 0 networks b; expected pairs, at least one"):
        align.barrier([], [], data=data)
    with pytest.raises(ValueError, match=r"'0.weight' is \(5, 4\) in one and \(6, 4\) in another"):
        align.barrier(a, mlp(4, 6, 3), data=data)
    with pytest.raises(ValueError, match=r"'4\.weight' is missing in one"):
        align.barrier(a, mlp(4, 5, 3, 3), data=data)


def test_networks_that_draw_when_they_run_are_judged_alike_in_every_call():
    """Dropout that stays on, say; along the line everybody gets the same draws, and torch's generator none of them."""
    a, b = (Net(lambda m, x: m.body(F.dropout(x, 0.5)), body=mlp(4, 8, 3)) for _ in range(2))
    data, random = (torch.randn(40, 4), torch.randint(3, (40,))), torch.get_rng_state()
    found = align.barrier(a, b, data=data, points=3)
    assert torch.equal(torch.get_rng_state(), random)
    torch.rand(1)
    assert torch.equal(align.barrier(a, b, data=data, points=3).loss, found.loss)


def test_a_counter_in_forward_counts_in_nobodys_network():
    def forward(m, x):
        m.calls.add_(1)
        return m.body(x)

    a, b = (Net(forward, body=nn.Conv2d(1, 3, 1)) for _ in range(2))
    for model in (a, b):
        model.register_buffer("calls", torch.zeros((), dtype=torch.long))
    align.barrier(a, b, lambda out, _: out.square().mean(), (torch.randn(4, 1, 2, 2), torch.zeros(4)), points=3)
    assert int(a.calls) == int(b.calls) == 0
