import pytest
from torch import nn

from align.running.modes import evaluating


def test_modes_of_all_submodules_come_back():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout())
    model[1].eval()  # a frozen norm
    with evaluating(model):
        assert not any(m.training for m in model.modules())
    assert [m.training for m in model.modules()] == [True, True, False, True]
    with pytest.raises(ZeroDivisionError), evaluating(model):
        1 / 0  # noqa: B018
    assert [m.training for m in model.modules()] == [True, True, False, True]
