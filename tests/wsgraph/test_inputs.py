import pytest
from networks import Net, mlp, vgg
from torch import nn

from wsgraph import to_graph
from wsgraph.inputs import infer_example_input


class Classifier(nn.Module):
    """Flattens whatever it gets."""

    def __init__(self, features):
        super().__init__()
        self.fc = nn.Linear(features, 2)

    def forward(self, x):
        return self.fc(x.view(x.size(0), -1))


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (mlp(7, 5, 2), (7,)),
        (mlp(784, 5, 2), (784,)),
        (nn.Sequential(nn.Flatten(), *mlp(784, 5, 2)), (1, 28, 28)),
        (Classifier(3 * 32 * 32), (3, 32, 32)),
        (nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(4 * 26 * 26, 2)), (1, 28, 28)),
        (
            nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 49, 2)),
            (3, 14, 14),
        ),
        (nn.Sequential(nn.Conv1d(2, 4, 3), nn.Flatten(), nn.Linear(4 * 15, 2)), (2, 17)),
        (nn.Sequential(nn.Conv3d(1, 2, 3), nn.AdaptiveAvgPool3d(1)), (1, 32, 32, 32)),
        (nn.Sequential(nn.Conv2d(4, 8, 1, groups=4), nn.AdaptiveAvgPool2d(1)), (4, 32, 32)),
        (vgg((1, 1, 2, 2, 2), (2,) * 5, hidden=2), (3, 32, 32)),
    ],
)
def test_the_first_layers_tell_the_input(model, shape):
    x = infer_example_input(model)
    assert tuple(x.shape[1:]) == shape
    model.eval()(x)


def test_device_and_dtype_are_the_model_s(dtype):
    assert infer_example_input(mlp(7, 5, 2).to(dtype)).dtype == dtype
    assert infer_example_input(mlp(7, 5, 2).to("meta")).is_meta


def test_a_model_that_keeps_its_activations():
    def forward(m, x):
        m.kept = m.fc(x)
        return m.kept

    model = Net(forward, fc=nn.Linear(3, 2))
    model(infer_example_input(model))
    assert infer_example_input(model).shape == (2, 3)


def test_trials_neither_run_nor_change_the_model():
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 900, 2))
    infer_example_input(model)
    assert model.training
    assert int(model[0].num_batches_tracked) == 0
    assert not any(t.is_meta for t in model.state_dict().values())


@pytest.mark.parametrize(
    "model",
    [
        Net(lambda m, x, y: m.fc(x + y), fc=nn.Linear(3, 2)),  # two inputs
        nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 2)),  # needs integers
        nn.Sequential(nn.LayerNorm(5)),  # no layer to read it off
    ],
)
def test_where_it_cannot_be_told_the_error_shows_the_call(model):
    with pytest.raises(ValueError, match=r"cannot infer an example input for (Net|Sequential)") as error:
        to_graph(model)
    assert "to_graph(model, example_input=torch.randn(2, 3, 32, 32))" in str(error.value)
