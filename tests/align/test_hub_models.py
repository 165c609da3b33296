"""Models that return more than a tensor and read dicts, in everything that runs networks."""

import pytest
import torch
from hub_models import BatchEncoding, Decoder, encoded
from networks import randomised
from torch.nn import functional as F

import align
from align.running.answers import logits
from wsgraph import Permutation, trace

LABELS = torch.tensor([0, 1, 2, 0])
X = encoded(4)
A = randomised(Decoder("a"), 0)
SPEC = trace(A, X)
MOVED = Permutation.random(SPEC, torch.Generator().manual_seed(1))
B = MOVED.apply(A)
LOADER = [encoded(4, labels=LABELS), encoded(3, labels=LABELS[:3])]


def second_class(returned):
    return returned["logits"][:, 1:]


@pytest.mark.parametrize("kind", [lambda: LOADER, lambda: BatchEncoding(LOADER[0]), lambda: [(X, LABELS)]])
def test_barrier(kind):
    found = align.barrier(A, B, data=kind(), points=3, alignment=align.match(A, B, "weight_matching", example_input=X))
    torch.testing.assert_close(found.loss[1], found.loss[0])
    assert found.accuracy is not None
    naive = align.barrier(A, B, data=kind(), points=3)
    assert abs(naive.loss[1] - naive.loss[0]) > 1e-3


def test_the_loss_is_about_what_output_picks():
    found = align.barrier(A, B, F.mse_loss, [(X, torch.zeros(4, 2))], points=2, output=second_class)
    expected = A(**X).logits[:, 1:].square().mean()
    torch.testing.assert_close(found.loss[-1], expected.detach())


@pytest.mark.parametrize("method", ["ste", "sinkhorn"])
def test_methods_that_optimise_a_loss(method):
    for options in ({}, {"output": logits}):
        found = align.match(A, B, f"weight_matching+{method}", data=LOADER, example_input=X, iterations=2, **options)
        assert found.permutation == MOVED.inverse()


def test_inputs_without_labels_are_answered_by_the_networks():
    found = align.match(A, B, "weight_matching+sinkhorn", data=[X], example_input=X, iterations=1)
    assert found.permutation == MOVED.inverse()


def test_activation_matching():
    found = align.match(A, B, "activation_matching", data=[encoded(200, labels=torch.zeros(200))], example_input=X)
    assert found.permutation == MOVED.inverse()


def test_auto_judges_on_the_data():
    found = align.match(A, B, data=LOADER, example_input=X, output=logits)
    assert found.candidates[0].score is not None


def test_noise_cannot_stand_for_a_dict():
    with pytest.raises(ValueError, match="the network reads a BatchEncoding of inputs, which noise cannot stand for"):
        align.match(A, B, "activation_matching", data="noise", example_input=X)


@pytest.mark.parametrize(
    ("returned", "named"),
    [((1, 2), "a tuple, "), ({"y": torch.ones(1)}, r"a dict of \['y'\], "), (None, "a NoneType, ")],
)
def test_an_answer_that_cannot_be_told(returned, named):
    with pytest.raises(
        TypeError, match=f"the network returns {named}expected a tensor, or a dict with a tensor"
    ) as error:
        logits(returned)
    assert "output=lambda returned: returned[0]" in str(error.value)
