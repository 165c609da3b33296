"""Networks trained together equal those trained alone."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from align.zoo import Recipe
from align.zoo.architectures import cnn, inr, mlp, vgg
from align.zoo.together import orders, train_alone, train_together

RECIPE = Recipe(epochs=3, batch=8, lr=1e-2)
MAKE: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: mlp((3, 8, 8), (5, 4), 3),
    "no bias": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 4, bias=False), nn.Tanh(), nn.Linear(4, 3)),
    "cnn": lambda: cnn((3, 8, 8), 0.125, 3),
    "nested": lambda: nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(192, 4), nn.ReLU()), nn.Linear(4, 3)),
}


def assert_same(together: list[dict[str, Tensor]], alone: list[dict[str, Tensor]]) -> None:
    assert len(together) == len(alone)
    for a, b in zip(together, alone, strict=True):
        assert list(a) == list(b)
        for name in a:
            torch.testing.assert_close(a[name], b[name], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_classifiers_equal_those_trained_alone(make: Callable[[], nn.Module]) -> None:
    x, y = torch.randn(20, 3, 8, 8, dtype=torch.float64), torch.randint(3, (20,))
    models = [make().double() for _ in range(3)]
    start = copy.deepcopy(models[0].state_dict())
    together = train_together(models, [5, 6, 7], x, y, RECIPE)
    alone = [train_alone(copy.deepcopy(m), s, x, y, RECIPE) for m, s in zip(models, (5, 6, 7), strict=True)]
    assert_same(together, alone)
    assert all((together[0][k] - start[k]).abs().max() > 1e-3 for k in start if k.endswith("weight")), "they learned"
    assert all(torch.equal(t, start[k]) for k, t in models[0].state_dict().items()), "on copies of what was given"


@pytest.mark.parametrize("layers", [2, 3, 5])
def test_representations_with_targets_of_their_own_equal_those_fitted_alone(layers: int) -> None:
    x = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    y = torch.stack([torch.sin(a * x) for a in (1, 5, 9)])
    models = [inr(1, 1, 6, layers).double() for _ in range(3)]
    recipe = Recipe(epochs=4, batch=20, lr=1e-3)
    together = train_together(models, [1, 2, 3], x, y, recipe, F.mse_loss, own=True)
    alone = [train_alone(m, s, x, t, recipe, F.mse_loss) for m, s, t in zip(models, (1, 2, 3), y, strict=True)]
    assert_same(together, alone)


def test_batchnorm_is_trained_alone_with_its_statistics() -> None:
    model = vgg(11, 0.03125, batchnorm=True)
    state = train_alone(model, 0, torch.randn(16, 3, 32, 32) + 2, torch.randint(10, (16,)), RECIPE)
    assert list(state) == list(model.state_dict())
    assert state["1.num_batches_tracked"] == RECIPE.steps(16) == 6
    assert state["1.running_mean"].abs().max() > 0.01
    assert all(t.is_contiguous() for t in state.values()), "however they were kept while training"


def test_batchnorm_together_is_refused() -> None:
    models = [vgg(11, 0.03125, batchnorm=True) for _ in range(2)]
    with pytest.raises(ValueError, match=r"BatchNorm.*use train_alone \(together=1\)"):
        train_together(models, [0, 1], torch.randn(4, 3, 32, 32), torch.randint(10, (4,)), RECIPE)


@pytest.mark.parametrize("batch", [3, 10, 64])
def test_every_network_sees_every_sample_once_per_epoch_in_its_own_order(batch: int) -> None:
    recipe = Recipe(epochs=2, batch=batch)
    steps = list(orders([1, 2], 10, recipe))
    assert len(steps) == recipe.steps(10)
    per_epoch = torch.cat(steps, 1).view(2, 2, -1)  # networks, epochs, samples
    size = min(batch, 10)
    assert per_epoch.shape[-1] == 10 // size * size, "but for a rest that fills no batch"
    assert all(len(set(seen.tolist())) == len(seen) for network in per_epoch for seen in network)
    assert not torch.equal(per_epoch[0], per_epoch[1])
    assert not torch.equal(per_epoch[0, 0], per_epoch[0, 1])
    (again,) = {tuple(torch.cat(list(orders([2], 10, recipe)), 1)[0].tolist())}
    assert list(again) == per_epoch[1].flatten().tolist(), "which does not depend on its companions"


def test_steps_are_announced() -> None:
    seen: list[int] = []
    x, y = torch.randn(20, 4), torch.randint(3, (20,))
    make = lambda: mlp((4,), (3,), 3)  # noqa: E731
    train_together([make(), make()], [0, 1], x, y, RECIPE, step=lambda: seen.append(1))
    train_alone(make(), 0, x, y, RECIPE, step=lambda: seen.append(1))
    assert len(seen) == 2 * RECIPE.steps(20)
