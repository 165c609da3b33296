"""Sine networks in one form: the same function, and one form for all that differ by signs and phases."""

import math

import pytest
import torch

from align.benchmark.paper.waves import one_form
from align.zoo.architectures import inr
from wsgraph import Permutation, trace
from wsgraph.modules import tensors_of, with_tensors

FREQUENCY = 10.0


@pytest.fixture
def network():
    torch.manual_seed(0)
    return inr(2, 3, hidden=16, layers=4, frequency=FREQUENCY).double()


def waved(tensors):
    """Some neurons of each layer turned, others half a wave away and read with the other sign, others a whole one."""
    found = {name: tensor.clone() for name, tensor in tensors.items()}
    for layer in (0, 2, 4):
        weight, bias, reader = (found[key] for key in (f"{layer}.weight", f"{layer}.bias", f"{layer + 2}.weight"))
        weight[:5] *= -1
        bias[:5] = math.pi / FREQUENCY - bias[:5]
        bias[3:9] += math.pi / FREQUENCY
        reader[:, 3:9] *= -1
        bias[8:12] -= 6 * math.pi / FREQUENCY
    return found


def test_the_function_stays_and_what_differs_by_waves_becomes_one(network):
    x = torch.rand(50, 2, dtype=torch.float64)
    tensors = tensors_of(network)
    other = waved(tensors)
    with torch.no_grad():
        for changed in (other, one_form(tensors, FREQUENCY)):
            torch.testing.assert_close(with_tensors(network, changed)(x), network(x))
    torch.testing.assert_close(one_form(other, FREQUENCY), one_form(tensors, FREQUENCY))
    assert not torch.allclose(other["2.weight"], tensors["2.weight"])
    phases = FREQUENCY * one_form(tensors, FREQUENCY)["0.bias"]
    assert (phases.abs() <= math.pi / 2).all()


def test_a_permuted_network_has_the_permuted_form(network):
    spec = trace(network, torch.rand(2, 2, dtype=torch.float64))
    planted = Permutation.random(spec)
    tensors = tensors_of(network)
    torch.testing.assert_close(one_form(planted.apply(tensors), FREQUENCY), planted.apply(one_form(tensors, FREQUENCY)))
