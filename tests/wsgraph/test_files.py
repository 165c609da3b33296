import pytest
import torch
from safetensors.torch import save_file

from wsgraph.files import load_tensors, save_tensors

TENSORS = {"a": torch.arange(6).view(2, 3).T, "b": torch.randn(3, requires_grad=True)}


def test_tensors_and_metadata_come_back(tmp_path):
    save_tensors(TENSORS, tmp_path / "x.safetensors", {"kind": "demo", "spec": "abc"})
    tensors, meta = load_tensors(tmp_path / "x.safetensors", kind="demo")
    assert meta == {"kind": "demo", "spec": "abc"}
    assert all(torch.equal(tensors[k], v) for k, v in TENSORS.items())


def test_tied_tensors_may_be_saved(tmp_path):
    save_tensors({"a": TENSORS["b"], "b": TENSORS["b"]}, tmp_path / "x", {"kind": "demo"})
    tensors, _ = load_tensors(tmp_path / "x", kind="demo")
    assert torch.equal(tensors["a"], tensors["b"])


def test_another_kind_of_file_is_refused(tmp_path):
    save_tensors(TENSORS, tmp_path / "x", {"kind": "demo"})
    with pytest.raises(ValueError, match=r"x is not a wsgraph.Permutation file \(its kind is 'demo'\)"):
        load_tensors(tmp_path / "x", kind="wsgraph.Permutation")


def test_a_foreign_file_is_refused(tmp_path):
    save_file({"a": torch.zeros(1)}, tmp_path / "x")
    with pytest.raises(ValueError, match="its kind is 'not given'"):
        load_tensors(tmp_path / "x", kind="demo")


@pytest.mark.parametrize("keep", [0, 5, 60, -1])
def test_a_truncated_file_is_named(tmp_path, keep):
    path = tmp_path / "x.safetensors"
    save_tensors(TENSORS, path, {"kind": "demo"})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"x.safetensors is not a readable safetensors file.*truncated; save it again"):
        load_tensors(path, kind="demo")


def test_a_failed_save_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "x"
    save_tensors(TENSORS, path, {"kind": "demo"})
    before = path.read_bytes()
    monkeypatch.setattr("safetensors.torch.save_file", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save_tensors({}, path, {"kind": "demo"})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_tensors(tmp_path / "nowhere", kind="demo")
