"""Chains of layers compute what ``vmap`` computes, gradients included."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from align.zoo.architectures import Sine, cnn, inr, mlp
from align.zoo.chain import chain

CHAINS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: mlp((3, 4, 4), (5, 4), 3), (3, 4, 4)),
    "inr": (lambda: inr(2, 3, 6, 4), (2,)),
    "linear": (lambda: nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)), (4,)),
}
RELU = nn.ReLU()
CHAINS["one ReLU twice"] = (lambda: nn.Sequential(nn.Linear(4, 4), RELU, nn.Linear(4, 4), RELU), (4,))
OTHERS: dict[str, nn.Module] = {
    "convolutions": cnn((3, 8, 8), 0.125),
    "no bias": nn.Sequential(nn.Linear(4, 4, bias=False)),
    "another function": nn.Sequential(nn.Linear(4, 4), nn.Tanh()),
    "nested": nn.Sequential(nn.Sequential(nn.Linear(4, 4))),
    "functions in a row": nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Sine()),
    "a function of the input": nn.Sequential(nn.ReLU(), nn.Linear(4, 4)),
    "flattened later": nn.Sequential(nn.Linear(4, 4), nn.Flatten()),
    "a single layer": nn.Linear(4, 4),
}


@pytest.mark.parametrize(("make", "shape"), CHAINS.values(), ids=CHAINS)
def test_outputs_and_gradients_are_those_of_vmap(
    make: Callable[[], nn.Module], shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    models = [make().to(dtype) for _ in range(3)]
    forward = chain(models[0])
    assert forward is not None
    x = torch.randn(3, 7, *shape, dtype=dtype)

    def results(function: Callable[[dict[str, Tensor], Tensor], Tensor]) -> list[Tensor]:
        params, _ = stack_module_state(models)
        out = function(params, x.clone())
        return [out, *torch.autograd.grad(out.square().sum(), list(params.values()))]

    expected = results(vmap(lambda params, inputs: functional_call(models[0], params, (inputs,))))
    torch.testing.assert_close(results(forward), expected)


@pytest.mark.parametrize("model", OTHERS.values(), ids=OTHERS)
def test_anything_else_is_left_to_vmap(model: nn.Module) -> None:
    assert chain(model) is None
