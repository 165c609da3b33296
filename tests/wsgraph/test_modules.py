import pytest
import torch
from torch import nn

from wsgraph.modules import double_copy, tensors_of
from wsgraph.randomness import seeded


def test_without_noise_a_double_copy_is_exact():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    copy = double_copy(model)
    assert not any(part.training for part in copy.modules())
    for name, tensor in tensors_of(copy).items():
        original = tensors_of(model)[name]
        assert torch.equal(tensor, original.double() if original.is_floating_point() else original)
        assert tensor.data_ptr() != original.data_ptr()


@pytest.mark.parametrize("size", [1, 300, 7_919, 9_000])
def test_noise_tells_the_channels_of_a_fresh_norm_apart(size):
    copy = double_copy(nn.BatchNorm1d(size), seeded())
    for name in ("weight", "bias", "running_mean", "running_var"):
        assert len(getattr(copy, name).unique()) == min(size, 7_919)
    assert copy.running_var.min() > 0.5


@pytest.mark.parametrize("shape", [(128, 300), (512, 64, 3, 3)])
def test_noise_that_repeats_tells_channels_apart(shape):
    """In a matrix that is all zeros, with more entries than there is noise."""
    layer = nn.Module()
    layer.weight = nn.Parameter(torch.zeros(shape))
    weight = double_copy(layer, seeded()).weight
    for dim in (0, 1):
        assert len(weight.unique(dim=dim).movedim(dim, 0)) == shape[dim]


def test_noise_does_not_depend_on_the_layout():
    conv = nn.Conv2d(4, 6, 3)
    plain = double_copy(conv, seeded())
    assert torch.equal(double_copy(conv.to(memory_format=torch.channels_last), seeded()).weight, plain.weight)
