"""Networks that torch cannot vectorise run one by one, wherever several are run at once."""

import warnings
from collections.abc import Callable

import pytest
import torch
from networks import Net, mlp, randomised
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

import align
from align.learning import losses
from align.learning.step import stack
from align.running import stacked
from align.running.stacked import over_networks
from align.zoo import Recipe
from align.zoo.together import train_alone, train_together
from wsgraph.modules import tensors_of


def recurrent(kind: type[nn.RNNBase]) -> nn.Module:
    return Net(lambda m, x: m.out(m.body(x)[0][:, -1]), body=kind(6, 8, batch_first=True), out=nn.Linear(8, 3))


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
    return Net(lambda m, x: m.out(m.body(x).mean(1)), body=layer, out=nn.Linear(6, 3))


def attention() -> nn.Module:
    def forward(m: nn.Module, x: Tensor) -> Tensor:
        q, k, v = m.qkv(x).unflatten(-1, (3, 2, 3)).permute(2, 0, 3, 1, 4)  # type: ignore[operator]
        return m.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2).mean(1))  # type: ignore[operator]

    return Net(forward, qkv=nn.Linear(6, 18), out=nn.Linear(6, 3))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "LSTM": lambda: recurrent(nn.LSTM),
    "GRU": lambda: recurrent(nn.GRU),
    "RNN": lambda: recurrent(nn.RNN),
    "transformer": transformer,
    "attention": attention,
}


@pytest.fixture(params=NETWORKS)
def networks(request: pytest.FixtureRequest) -> list[nn.Module]:
    """Four of one architecture."""
    return [randomised(NETWORKS[request.param](), seed) for seed in range(4)]


@pytest.fixture
def data() -> tuple[Tensor, Tensor]:
    return torch.randn(12, 5, 6), torch.randint(3, (12,))


def between(a: nn.Module, b: nn.Module, weight: float, x: Tensor) -> Tensor:
    left, right = tensors_of(a), tensors_of(b)
    return functional_call(a, {k: weight * left[k] + (1 - weight) * right[k] for k in left}, (x,))


def test_barrier(networks: list[nn.Module], data: tuple[Tensor, Tensor]) -> None:
    found = align.barrier(networks[:2], networks[2:], data=data, points=3)
    for k in range(2):
        a, b = (n.eval() for n in networks[k::2])
        with torch.no_grad():
            expected = [F.cross_entropy(between(a, b, w, data[0]), data[1]) for w in (0, 0.5, 1)]
        torch.testing.assert_close(found.loss[k], torch.stack(expected))


def test_lmc_loss_has_gradients(networks: list[nn.Module], data: tuple[Tensor, Tensor]) -> None:
    x, y = data
    a, b = (stack([tensors_of(n) for n in pair]) for pair in (networks[:2], networks[2:]))
    moved = {k: t.detach().requires_grad_() for k, t in b.items()}
    got = losses.lmc(networks[0].eval(), a, moved, x, torch.stack([y, y]))
    pairs = zip(networks[:2], networks[2:], strict=True)
    expected = torch.stack([F.cross_entropy(between(p.eval(), q.eval(), 0.5, x), y) for p, q in pairs]).mean()
    torch.testing.assert_close(got, expected)
    got.backward()
    expected.backward()
    for k, t in moved.items():
        wanted = torch.stack([dict(n.named_parameters())[k].grad for n in networks[2:]])
        torch.testing.assert_close(t.grad, wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_training_together_equals_training_alone(name: str, data: tuple[Tensor, Tensor]) -> None:
    recipe = Recipe(epochs=2, batch=4)
    together = train_together([randomised(NETWORKS[name](), k) for k in range(2)], [5, 6], *data, recipe)
    for k in range(2):
        alone = train_alone(randomised(NETWORKS[name](), k), 5 + k, *data, recipe)
        for key, tensor in alone.items():
            torch.testing.assert_close(together[k][key], tensor, atol=1e-5, rtol=1e-3)


def test_torch_says_nothing(networks: list[nn.Module], data: tuple[Tensor, Tensor]) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        align.barrier(*networks[:2], data=data, points=3)
    assert [str(w.message) for w in said] == []


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every attempt to vectorise."""
    seen: list[int] = []
    vmap = stacked.vmap
    monkeypatch.setattr(stacked, "vmap", lambda *a, **k: seen.append(1) or vmap(*a, **k))
    return seen


def test_it_is_tried_once_and_random_numbers_are_as_if_it_had_not(calls: list[int]) -> None:
    model, x = nn.LSTM(6, 8), torch.randn(5, 2, 6)
    tensors = {k: torch.stack([t, t]) for k, t in tensors_of(model).items()}

    def noisy(n: dict[str, Tensor]) -> Tensor:
        return functional_call(model, n, (x + torch.randn(5, 2, 6),))[0]

    torch.manual_seed(1)
    first = over_networks(model, noisy, tensors)
    torch.manual_seed(1)
    again = over_networks(model, noisy, tensors)
    assert len(calls) == 1
    assert torch.equal(first, again)


def test_a_wrong_call_says_what_is_wrong_and_is_not_remembered(calls: list[int]) -> None:
    model = mlp(4, 5, 2)
    tensors = {k: torch.stack([t, t]) for k, t in tensors_of(model).items()}

    def run(x: Tensor) -> Tensor:
        return over_networks(model, lambda n: functional_call(model, n, (x,)), tensors)

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        run(torch.randn(3, 7))
    assert run(torch.randn(3, 4)).shape == (2, 3, 2)
    run(torch.randn(3, 4))
    assert len(calls) == 3
