"""Data of one's own: files, datasets and folders of images as tensors, and what is refused."""

import sys

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from align.data import DataSet
from align.data.own import own_data

MINE = """
import torch
from torch.utils.data import Dataset, TensorDataset
from align.data import DataSet

pair = torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 0])


class Squares(Dataset):
    def __len__(self):
        return 300

    def __getitem__(self, k):
        return torch.full((2,), float(k)), k % 3


def made():
    return TensorDataset(*pair)


def split():
    return DataSet("mine", pair, pair, pair, ("a", "b"), (1, 1, 2))


ragged = [(torch.zeros(k + 1), 0) for k in range(3)]
squares = Squares()
number = 3
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with a module; tests are in it."""
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("mine", None)


def image(path, shape=(4, 6, 3), value=255):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full(shape, value, np.uint8)).save(path)


def test_a_file_of_tensors(here):
    x, y = torch.randn(4, 2), torch.arange(4)
    save_file({"inputs": x, "targets": y}, here / "both.safetensors")
    torch.save({"inputs": x}, here / "inputs.pt")
    found = own_data("both.safetensors")
    assert torch.equal(found[0], x)
    assert torch.equal(found[1], y)
    assert torch.equal(own_data("inputs.pt"), x)


def test_what_a_module_holds():
    assert own_data("mine:pair")[0].shape == (3, 2)
    x, y = own_data("mine:squares")
    assert (x.shape, y.dtype) == ((300, 2), torch.int64)
    assert x[7].tolist() == [7, 7]
    assert own_data("mine:Squares")[0].shape == (300, 2)
    assert own_data("mine:made")[1].tolist() == [0, 1, 0]
    assert isinstance(own_data("mine:split"), DataSet)


def test_a_folder_of_images(here):
    image(here / "pets" / "dog" / "1.png", value=51)
    image(here / "pets" / "cat" / "2.jpg")
    image(here / "pets" / "cat" / "1.PNG")
    (here / "pets" / "cat" / "notes.txt").write_text("none of them")
    x, y = own_data("pets")
    assert (x.shape, x.dtype) == ((3, 3, 4, 6), torch.float32)
    assert y.tolist() == [0, 0, 1]  # cats come first
    assert x[2].unique().tolist() == pytest.approx([0.2])
    image(here / "pets" / "dog" / "2.png", shape=(8, 8))
    assert own_data("pets", (1, 2, 2))[0].shape == (4, 1, 2, 2)
    with pytest.raises(ValueError, match=r"2.png has the shape \(1, 8, 8\) and .*1.PNG \(3, 4, 6\) .*data.shape="):
        own_data("pets")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("cats", r"no data 'cats': choose one of digits, .* or pass a .safetensors file with the entries inputs and"),
        ("mine:number", "mine:number is a int, expected a Dataset of pairs"),
        ("mine:nothing", "mine:nothing is a NoneType, expected a Dataset"),
        ("mine:ragged", "mine:ragged: its items cannot be stacked .*, expected pairs of an input tensor, of one size"),
        ("nowhere:data", "'nowhere:data': cannot import 'nowhere'"),
        ("other.safetensors", r"other.safetensors holds \['x'\], expected the entries inputs and targets"),
        ("empty", "empty holds no images in folders of their own, expected a folder per class with files of .png"),
        ("broken", "1.png is not a readable image .*; remove it or save it again"),
    ],
)
def test_refused(source, message, here):
    save_file({"x": torch.zeros(1)}, here / "other.safetensors")
    (here / "empty" / "cat").mkdir(parents=True)
    (here / "broken" / "cat").mkdir(parents=True)
    (here / "broken" / "cat" / "1.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(ValueError, match=message):
        own_data(source)
