from types import SimpleNamespace

import pytest
import torch
from networks import Net
from torch import nn

from wsgraph import exporting, trace


def layers(forward, **buffers):
    model = Net(forward, a=nn.Linear(4, 6), b=nn.Linear(6, 2))
    for name, value in buffers.items():
        model.register_buffer(name, value)
    return model


def branching(m, x):
    return m.b(m.a(x)) if x.sum() > 0 else m.b(-m.a(x))


def counting(m, x):
    """As many rows as a tensor says, by int()."""
    return m.b(m.a(x)[: int(m.k)])


@pytest.mark.parametrize("forward", [branching, counting])
def test_what_only_values_tell(forward):
    model = layers(forward, k=torch.tensor(3))
    with pytest.raises(ValueError, match=r"Net, because forward needs the value of a tensor.* \(.item\(\)") as error:
        trace(model, torch.randn(5, 4))
    assert "keep a number as a plain attribute (self.size = 3)" in str(error.value)
    assert "to_graph(model, example_input, spec=Spec(groups=..., params=...))" in str(error.value)


def test_numbers_that_shape_nothing_may_come_from_tensors():
    model = layers(lambda m, x: m.b(torch.relu(m.a(x)) * m.k.item()), k=torch.tensor(3.0))
    assert [group.name for group in trace(model, torch.randn(2, 4)).free] == ["a"]


def test_forward_may_ask_for_the_dtype_its_layers_have():
    model = layers(lambda m, x: m.b.to(x.dtype)(torch.relu(m.a(x))))
    assert [group.name for group in trace(model, torch.randn(2, 4)).free] == ["a"]


def test_no_branch_is_blamed_for_anything_else():
    model = layers(lambda m, x: m.b(torch.from_numpy(m.a(x).detach().numpy())))
    with pytest.raises(ValueError, match=r"torch.export cannot export Net: RuntimeError: .numpy\(\)") as error:
        trace(model, torch.randn(2, 4))
    assert "branch" not in str(error.value)
    assert "torch.where" not in str(error.value)
    assert "test_exporting.py, line " in str(error.value)


def norm_between(norm):
    return nn.Sequential(nn.Linear(4, 6), norm, nn.ReLU(), nn.Linear(6, 2))


def test_counts_of_batches_are_not_exported():
    model, x = norm_between(nn.BatchNorm1d(6)), torch.randn(3, 4)
    buffers = exporting.export(model, (x,), {}).graph_signature.buffers
    assert list(buffers) == ["1.running_mean", "1.running_var"]
    assert model[1].num_batches_tracked == 0
    assert trace(model, x).params["1.num_batches_tracked"].axes == ()


class Counting(nn.BatchNorm1d):
    """Its scale depends on how many batches it has seen."""

    def forward(self, x):
        return super().forward(x) * (1 + self.num_batches_tracked)


def test_a_norm_of_your_own_may_read_its_count():
    model, x = norm_between(Counting(6)), torch.randn(3, 4)
    assert "1.num_batches_tracked" in exporting.export(model, (x,), {}).graph_signature.buffers
    assert [group.name for group in trace(model, x).free] == ["0"]


def test_a_private_name_of_torch_may_go(monkeypatch):
    monkeypatch.setattr(exporting, "fx", SimpleNamespace())
    with exporting._unwritten():
        pass
