"""Tables: bundled ones and those of random teachers, for classes and for numbers."""

import pytest
import torch
from torch.nn import functional as F

from align.zoo.tables import BUNDLED, Table, table_shape


@pytest.mark.parametrize("data", [*BUNDLED, "teacher-0", "teacher-2", "teacher-3"])
def test_samples_are_standardised_and_held_out(data):
    task = Table(data)
    (x, y), (held, targets) = task.samples("train"), task.samples("test")
    inputs, outputs = table_shape(data)
    assert x.shape[1] == held.shape[1] == inputs
    assert len(held) == pytest.approx((len(x) + len(held)) / 4, abs=1)
    torch.testing.assert_close(x.mean(0), torch.zeros(inputs), atol=1e-4, rtol=0)
    if y.dtype == torch.int64:
        assert task.loss is F.cross_entropy
        assert set(y.tolist()) <= set(range(outputs))
        assert len(set(y.tolist())) > 1
    else:
        assert task.loss is F.mse_loss
        assert y.shape[1] == targets.shape[1] == outputs
        torch.testing.assert_close(y.std(0), torch.ones(outputs), atol=1e-3, rtol=0)


def test_a_teacher_is_the_same_every_time_and_another_by_another_number():
    before = torch.get_rng_state()
    a, b, other = Table("teacher-4"), Table("teacher-4"), Table("teacher-8")
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(a.train[0], b.train[0])
    assert torch.equal(a.train[1], b.train[1])
    assert other.train[0].shape != a.train[0].shape or not torch.equal(other.train[0], a.train[0])


def test_columns_are_sparse_skewed_and_heavy_tailed():
    x = Table("teacher-11").train[0]
    skew = (x**3).mean(0)
    assert (skew > 1).any()
    assert ((x**4).mean(0) > 5).any()
    assert any((x[:, k] == x[:, k].min()).float().mean() > 0.5 for k in range(x.shape[1]))  # mostly one value


def test_what_is_no_table_is_named():
    with pytest.raises(ValueError, match="no table 'iris'; choose one of wine, breast_cancer, diabetes, or teacher-"):
        Table("iris")
