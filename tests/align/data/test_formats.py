"""Every supported file format gives the same tensors, and no damaged file is taken for a whole one."""

import pickle
from dataclasses import replace
from pathlib import Path

import fake_data
import pytest
import torch

from align.data import cifar, idx, stl10
from align.data.catalogue import CATALOGUE
from align.data.formats import RawSet
from align.data.store import open_set, read_standard

WRITERS = {
    "idx": ("mnist", fake_data.write_idx, {}),
    "idx.gz": ("fashion_mnist", fake_data.write_idx, {"compress": True}),
    "cifar binary": ("cifar10", fake_data.write_cifar_binary, {}),
    "cifar python 2": ("cifar10", fake_data.write_cifar_python, {}),
    "cifar python 3": ("cifar10", fake_data.write_cifar_python, {"old": False}),
    "cifar png": ("cifar10", fake_data.write_cifar_png, {}),
    "stl10": ("stl10", fake_data.write_stl10, {}),
}


def write(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, RawSet]:
    name, writer, options = WRITERS[kind]
    tensors = fake_data.shrink(monkeypatch, name)
    writer(tensors, folder, **options)
    return name, tensors


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_gives_the_same_tensors(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, tensors = write(kind, tmp_path / "unpacked" / "somewhere", monkeypatch)
    got = read_standard(CATALOGUE[name], tmp_path)
    assert set(got) == set(tensors)
    assert all(torch.equal(got[part], tensors[part]) for part in tensors)


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("harm", ["cut", "flip", "empty"])
def test_damaged_files_are_refused(kind: str, harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _ = write(kind, tmp_path / WRITERS[kind][0], monkeypatch)
    for path in sorted((tmp_path / name).iterdir()):
        content = path.read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        cut = content[: -1 if path.suffix != ".png" else -30]  # the last bytes of a PNG hold no pixels
        path.write_bytes({"cut": cut, "flip": flipped, "empty": b""}[harm])
        with pytest.raises(ValueError, match=r"damaged|not a|cut short|incomplete|labels|wide|do not hold|hold"):
            open_set(CATALOGUE[name], tmp_path)
        path.write_bytes(content)
    assert not list(tmp_path.rglob("*.safetensors"))
    open_set(CATALOGUE[name], tmp_path)  # whole again, so the refusals above had their reason


def test_known_bytes_are_checked_before_anything_is_decoded(tmp_path: Path) -> None:
    fake_data.write_cifar_png(fake_data.raw_set("cifar10"), tmp_path)
    calls = []
    format = replace(cifar.PNG, checksums=fake_data.sums(tmp_path), read=lambda paths, step: calls.append(1) or {})
    format.load(format.find(tmp_path))
    assert calls == [1]
    (tmp_path / "test_batch.png").write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"test_batch\.png is damaged or incomplete: its sha256 is .* Delete it"):
        format.load(format.find(tmp_path))
    assert calls == [1]


def test_checksums_cover_all_files() -> None:
    assert set(cifar.PNG.checksums) == set(cifar.PNG.files)
    assert set(stl10.BINARY.checksums) == set(stl10.BINARY.files)
    assert all(CATALOGUE[name].digest for name in ("mnist", "fashion_mnist", "cifar10"))


def test_a_foreign_set_of_the_right_shape_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = fake_data.shrink(monkeypatch, "mnist")
    tensors["test_labels"] = (tensors["test_labels"] + 1) % 10
    fake_data.write_idx(tensors, tmp_path)
    with pytest.raises(ValueError, match="not the official ones, or are damaged"):
        read_standard(CATALOGUE["mnist"], tmp_path)


def test_idx_of_another_type_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes((0, 0, 0x0D, 1, 0, 0, 0, 1, 0, 0, 0, 0)))  # floats
    with pytest.raises(ValueError, match="not an IDX file of unsigned bytes with 1 dimensions"):
        idx.read_idx(tmp_path / "file", 1)


def test_plain_files_come_before_compressed_ones(tmp_path: Path) -> None:
    tensors = fake_data.raw_set("mnist")
    fake_data.write_idx(tensors, tmp_path, compress=True)
    assert {path.suffix for path in idx.IDX.find(tmp_path).values()} == {".gz"}
    fake_data.write_idx(tensors, tmp_path)
    assert {path.suffix for path in idx.IDX.find(tmp_path).values()} == {""}


def test_stl10_columns_become_rows(tmp_path: Path) -> None:
    image = torch.zeros(1, 3, 96, 96, dtype=torch.uint8)
    image[0, 0, 0, 1] = 7  # first row, second column: byte 96 of a file that is written column by column
    content = image.transpose(2, 3).contiguous().numpy().tobytes()
    assert content.index(7) == 96
    for split in ("train", "test"):
        fake_data.put(tmp_path / f"{split}_X.bin", content)
        fake_data.put(tmp_path / f"{split}_y.bin", bytes([10]))
    tensors = stl10.read({name: tmp_path / name for name in stl10.FILES}, lambda: None)
    assert torch.equal(tensors["train_images"], image)
    assert tensors["train_labels"].tolist() == [9]


def test_python_batches_without_data_are_refused(tmp_path: Path) -> None:
    for content in ([1, 2], {b"data": 3}, {b"labels": [1]}, {b"data": b"abc", b"labels": [1]}):
        for name in cifar.PYTHON.files:
            (tmp_path / name).write_bytes(pickle.dumps(content, protocol=2 if content == [1, 2] else 3))
        with pytest.raises(ValueError, match="not a CIFAR-10 batch"):
            cifar.PYTHON.load(cifar.PYTHON.find(tmp_path))
