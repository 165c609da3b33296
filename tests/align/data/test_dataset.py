"""Loading: splits, normalisation, resizing, the cache folder."""

from pathlib import Path

import fake_data
import pytest
import torch
from sklearn.datasets import load_digits

from align import data
from align.data import NAMES, cache_folder, load
from align.data.dataset import resize


def test_public_names() -> None:
    assert data.__all__ == ["NAMES", "DataSet", "FetchError", "cache_folder", "fetch", "load"]
    assert NAMES == ("digits", "mnist", "fashion_mnist", "cifar10", "stl10")


def test_digits_are_the_default_and_need_no_files(tmp_path: Path) -> None:
    digits = load(folder=tmp_path)
    assert repr(digits) == "DataSet(digits, train=1260, val=140, test=397, classes=10, shape=(1, 8, 8))"
    for inputs, labels in (digits.train, digits.val, digits.test):
        assert inputs.dtype == torch.float32
        assert labels.dtype == torch.int64
        assert inputs.shape == (len(labels), 1, 8, 8)
        assert (float(inputs.min()), float(inputs.max())) == (-1.0, 1.0)
        assert labels.unique().tolist() == list(range(10))
    assert not list(tmp_path.iterdir())


def test_the_splits_are_a_partition() -> None:
    digits = load()
    everything = torch.cat([inputs for inputs, _ in (digits.train, digits.val, digits.test)]).flatten(1)
    original = torch.tensor(load_digits().data, dtype=torch.float32) / 8 - 1
    assert sorted(map(tuple, everything.tolist())) == sorted(map(tuple, original.tolist()))


def test_the_seed_chooses_the_validation_images_only() -> None:
    a, b, c = load(seed=0), load(seed=0), load(seed=1)
    assert torch.equal(a.val[0], b.val[0])
    assert torch.equal(a.train[1], b.train[1])
    assert not torch.equal(a.val[0], c.val[0])
    assert torch.equal(a.test[0], c.test[0])


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 8, 8), (1, 4, 4), [3, 32, 32]])
def test_digits_take_the_shape_of_a_network(shape: tuple[int, int, int]) -> None:
    digits, plain = load(shape=shape), load()
    assert digits.shape == tuple(shape)
    for split in ("train", "val", "test"):
        inputs, labels = getattr(digits, split)
        assert inputs.shape == (len(labels), *shape)
        assert inputs.is_contiguous()
        assert float(inputs.abs().max()) <= 1
        assert torch.equal(labels, getattr(plain, split)[1])
        torch.testing.assert_close(inputs.mean((1, 2, 3)), getattr(plain, split)[0].mean((1, 2, 3)), atol=0.1, rtol=0)


def test_resizing() -> None:
    images = torch.rand(2, 3, 6, 6)
    assert torch.equal(resize(images, (3, 6, 6)), images)
    grey = resize(images, (1, 6, 6))
    torch.testing.assert_close(grey[:, 0], 0.299 * images[:, 0] + 0.587 * images[:, 1] + 0.114 * images[:, 2])
    assert torch.equal(resize(grey, (3, 6, 6)), grey.expand(-1, 3, -1, -1))
    torch.testing.assert_close(resize(torch.ones(1, 1, 6, 6), (3, 3, 9)), torch.ones(1, 3, 3, 9))
    with pytest.raises(ValueError, match="cannot turn images of 3 channels into 4"):
        resize(images, (4, 6, 6))


@pytest.mark.parametrize("shape", [(32, 32), (3, 0, 32), (3, 32.0, 32)])
def test_a_wrong_shape_is_refused(shape: tuple) -> None:
    with pytest.raises(ValueError, match="expected three positive numbers"):
        load(shape=shape)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no data set 'CIFAR-10': did you mean 'cifar10'\? Choose one of digits, "):
        load("CIFAR-10")


@pytest.mark.parametrize(("name", "mean", "std"), [("mnist", 0.1307, 0.3081), ("cifar10", 0.5, 0.5)])
def test_normalisation_and_order(
    name: str, mean: float, std: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = fake_data.shrink(monkeypatch, name)
    write = fake_data.write_idx if name == "mnist" else fake_data.write_cifar_binary
    write(tensors, tmp_path / name)
    got = load(name, folder=str(tmp_path))
    torch.testing.assert_close(got.test[0], (tensors["test_images"] / 255 - mean) / std)
    assert torch.equal(got.test[1], tensors["test_labels"].long())
    assert (len(got.train[0]), len(got.val[0])) == (9, 1)
    assert len(got.classes) == 10


def test_the_environment_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSGRAPH_DATA", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    fake_data.write_idx(fake_data.shrink(monkeypatch, "mnist"), tmp_path / "here" / "mnist")
    assert len(load("mnist").test[0]) == 4
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WSGRAPH_DATA", "~/there")
    assert cache_folder() == tmp_path / "there"
    monkeypatch.setenv("WSGRAPH_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache" / "wsgraph"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / ".cache" / "wsgraph"
