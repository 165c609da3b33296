import pytest
import torch
from networks import mlp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from align.running.batches import BATCH, NOISE_SAMPLES, batches, input_batches, is_pair

X, Y = torch.randn(BATCH + 1, 4), torch.arange(BATCH + 1)


def joined(data, model=None):
    found = list(batches(data, model or mlp(4, 3)))
    xs = torch.cat([x for x, _ in found])
    return xs, None if found[0][1] is None else torch.cat([y for _, y in found]), [len(x) for x, _ in found]


@pytest.mark.parametrize(
    "data",
    [
        X,
        (X, Y),
        [X, Y],
        [(X[:5], Y[:5]), (X[5:], Y[5:])],
        [X[:5], X[5:9], X[9:]],
        DataLoader(TensorDataset(X, Y), batch_size=100),
        DataLoader(TensorDataset(X), batch_size=100),
        DataLoader(X, batch_size=100),  # type: ignore[arg-type]
    ],
    ids=[
        "inputs",
        "pair",
        "list pair",
        "list of pairs",
        "list of inputs",
        "loader",
        "inputs in tuples",
        "plain loader",
    ],
)
def test_every_form_gives_all_samples_once_in_order(data):
    x, y, _ = joined(data)
    torch.testing.assert_close(x, X)
    assert y is None or torch.equal(y, Y)


@pytest.mark.parametrize("name", ["labels", "label"])
def test_dicts_hold_inputs_by_name_and_targets(name):
    whole = {"tokens": X, "scale": 2, name: Y}
    for data in (whole, [whole], [({"tokens": X, "scale": 2}, Y)]):
        found = list(batches(data, mlp(4, 3).double()))
        assert all(set(x) == {"tokens", "scale"} and x["scale"] == 2 for x, _ in found)
        torch.testing.assert_close(torch.cat([x["tokens"] for x, _ in found]), X.double())
        assert torch.equal(torch.cat([y for _, y in found]), Y)
    assert next(batches([{"tokens": X}], mlp(4, 3)))[1] is None


def test_tensors_are_cut_into_equal_batches():
    assert joined(X)[2] == [257, 256]


def test_inputs_take_the_models_dtype_and_integers_stay():
    assert joined(X, mlp(4, 3).double())[0].dtype == torch.float64
    assert joined(torch.arange(5), nn.Embedding(9, 2))[0].dtype == torch.int64


def test_noise():
    generator = torch.Generator().manual_seed(0)
    found = torch.cat(list(input_batches("noise", mlp(4, 3).to(torch.bfloat16), torch.zeros(2, 4), generator)))
    assert found.shape == (NOISE_SAMPLES, 4)
    assert found.dtype == torch.bfloat16
    assert abs(float(found.float().std()) - 1) < 0.05
    assert next(input_batches("noise", mlp(9, 3), None, None)).shape[1:] == (9,)  # inferred


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (5, TypeError, "expected a tensor, a pair"),
        ((X, Y[:3]), ValueError, "513 inputs but 3 targets"),
        ([], ValueError, "data is empty"),
        (X[:0], ValueError, "data is empty"),
        ([{"x": 3}], TypeError, "loader yields a dict.*dicts of tensors with their targets as 'labels'"),
        ("noize", ValueError, "'noize', expected tensors, a loader, 'noise' or, of align.match, 'dreams'"),
    ],
)
def test_errors(data, error, message):
    with pytest.raises(error, match=message):
        list(input_batches(data, mlp(4, 3), None, None))


@pytest.mark.parametrize("samples", [2, BATCH, BATCH + 1])
def test_as_much_noise_as_asked_for(samples):
    found = list(input_batches("noise", mlp(4, 3), None, None, samples))
    assert sum(map(len, found)) == samples
    assert max(map(len, found)) <= BATCH


@pytest.mark.parametrize(
    ("data", "samples", "message"),
    [
        ("noise", 1, "samples=1, expected a whole number of at least 2"),
        ("noise", 0.5, "samples=0.5, expected a whole number"),
        (torch.zeros(3, 4), 2, "but data is given; leave samples out"),
    ],
)
def test_a_number_of_samples_that_makes_no_sense(data, samples, message):
    with pytest.raises(ValueError, match=message):
        list(input_batches(data, mlp(4, 3), None, None, samples))


def test_noise_cannot_stand_for_integers():
    with pytest.raises(ValueError, match="noise cannot stand for"):
        list(input_batches("noise", nn.Embedding(9, 2), torch.zeros(2, 3, dtype=torch.long), None))


def test_a_pair_is_two_tensors():
    assert is_pair((X, Y))
    assert not is_pair([(X, Y), (X, Y)])
