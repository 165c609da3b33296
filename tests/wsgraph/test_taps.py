import pytest
import torch

from wsgraph.taps import BASIS_SIZE, tap_basis


@pytest.mark.parametrize("shape", [(), (3,), (3, 3), (5, 5), (7, 2), (2, 2, 2), (1, 1)])
def test_columns_are_orthonormal_or_zero(shape):
    basis = tap_basis(shape)
    gram = basis.T @ basis
    count = int(gram.diagonal().round().sum())
    expected = torch.diag((torch.arange(BASIS_SIZE) < count).double())
    torch.testing.assert_close(gram, expected)
    assert count == min(BASIS_SIZE, basis.shape[0])


@pytest.mark.parametrize("shape", [(), (3, 3), (9,), (2, 2, 2)])
def test_small_kernels_lose_nothing(shape):
    taps = torch.randn(tap_basis(shape).shape[0], dtype=torch.float64)
    torch.testing.assert_close(tap_basis(shape) @ (taps @ tap_basis(shape)), taps)


def test_large_kernels_are_low_passed():
    taps = torch.randn(25, dtype=torch.float64)
    basis = tap_basis((5, 5))
    assert (basis @ (taps @ basis) - taps).norm() > 0.1 * taps.norm()


def test_a_plain_weight_is_its_own_first_coefficient():
    assert tap_basis(()).tolist() == [[1.0] + [0.0] * (BASIS_SIZE - 1)]


def test_the_first_function_is_the_mean():
    basis = tap_basis((4, 4))
    torch.testing.assert_close(basis[:, 0], torch.full((16,), 0.25, dtype=torch.float64))


def test_device_and_dtype_follow_the_weights(dtype):
    assert tap_basis((3, 3), like=torch.zeros(1, dtype=dtype)).dtype == dtype
    assert tap_basis((3, 3), like=torch.zeros(1, dtype=dtype, device="meta")).is_meta
