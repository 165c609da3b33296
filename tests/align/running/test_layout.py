import torch
from torch import nn

from align.running.layout import channels_last
from align.zoo.architectures import cnn, mlp, resnet20


def test_channels_come_last_only_where_it_helps_and_is_safe():
    images = torch.randn(2, 3, 32, 32)
    assert channels_last(cnn(), images).is_contiguous(memory_format=torch.channels_last)
    for model in (mlp((3, 32, 32)), resnet20(0.125), nn.Linear(3, 3)):
        assert channels_last(model, images).is_contiguous()
    signal = torch.randn(4, 1)
    assert channels_last(cnn(), signal) is signal
    torch.testing.assert_close(channels_last(cnn(), images), images)
