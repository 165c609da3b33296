"""The compact file: made once, verified at each opening; the message when nothing is there."""

from pathlib import Path

import fake_data
import pytest
import torch

from align.data import load
from align.data.catalogue import CATALOGUE
from align.data.store import compact_path, open_set
from wsgraph.files import save_tensors


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The compact file of a tiny MNIST."""
    fake_data.write_idx(fake_data.shrink(monkeypatch, "mnist"), tmp_path / "mnist")
    open_set(CATALOGUE["mnist"], tmp_path)
    return compact_path(CATALOGUE["mnist"], tmp_path)


def test_the_second_time_needs_the_compact_file_only(stored: Path) -> None:
    first = load("mnist", folder=stored.parent.parent)
    for path in stored.parent.iterdir():
        if path != stored:
            path.unlink()
    second = load("mnist", folder=stored.parent.parent)
    assert torch.equal(first.train[0], second.train[0])
    assert torch.equal(first.test[1], second.test[1])


@pytest.mark.parametrize("where", [0.02, 0.5, 0.999])
def test_a_flipped_bit_is_found(stored: Path, where: float) -> None:
    content = bytearray(stored.read_bytes())
    content[int(len(content) * where)] ^= 1
    stored.write_bytes(content)
    with pytest.raises(ValueError, match=r"mnist\.safetensors .*`python -m align\.data fetch mnist --force`"):
        load("mnist", folder=stored.parent.parent)


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.9])
def test_a_truncated_file_is_found(stored: Path, keep: float) -> None:
    content = stored.read_bytes()
    stored.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(ValueError, match=r"mnist\.safetensors .*fetch mnist --force"):
        load("mnist", folder=stored.parent.parent)


def test_a_foreign_file_is_refused(stored: Path) -> None:
    save_tensors({"weight": torch.zeros(3)}, stored, {"kind": "zoo"})
    with pytest.raises(ValueError, match="is not a wsgraph data set file"):
        load("mnist", folder=stored.parent.parent)


def test_a_failed_write_leaves_nothing(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored.unlink()

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space left"):
        load("mnist", folder=stored.parent.parent)
    assert not list(stored.parent.glob("*safetensors*"))


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10"])
def test_the_message_for_a_missing_set(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load(name, folder=tmp_path)
    message = str(caught.value)
    assert f"{name} is not in {tmp_path / name}" in message
    assert f"python -m align.data fetch {name}\n" in message
    assert "WSGRAPH_DATA" in message
    assert all(file in message for format in CATALOGUE[name].formats for file in format.files)


def test_the_message_for_a_set_no_registry_has(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load("stl10", folder=tmp_path)
    assert "train_X.bin, train_y.bin, test_X.bin, test_y.bin" in str(caught.value)
    assert "python -m align.data fetch" not in str(caught.value)


def test_the_message_for_a_partial_set_names_what_is_missing(tmp_path: Path) -> None:
    fake_data.write_cifar_binary(fake_data.raw_set("cifar10"), tmp_path / "cifar10")
    (tmp_path / "cifar10" / "data_batch_3.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"(?m)of which missing: data_batch_3\.bin$"):
        load("cifar10", folder=tmp_path)
