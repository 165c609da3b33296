import logging
import resource
import signal

import pytest
import torch
from safetensors.torch import load_file, save_file

from wsgraph.files import load_tensors, read_header, read_tensors, refill, save_tensors

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


def test_every_flipped_bit_is_found(tmp_path):
    path = tmp_path / "x"
    save_tensors(TENSORS, path, {"kind": "demo"})
    content = path.read_bytes()
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        if b'"digest"' in flipped:  # else it is a file without one, and all the rest is as it was
            with pytest.raises(ValueError, match=r"x is (damaged: the SHA-256|not a readable safetensors|not a demo)"):
                load_tensors(path, kind="demo")


def test_a_file_without_a_digest_is_read_with_a_line_in_the_log(tmp_path, caplog):
    save_file({"a": torch.zeros(1)}, tmp_path / "x")
    with caplog.at_level(logging.INFO):
        assert torch.equal(read_tensors(tmp_path / "x")[0]["a"], torch.zeros(1))
    assert "x has no digest: whether it is damaged cannot be told" in caplog.text


@pytest.fixture
def small_files():
    """Files cannot grow beyond 64 kB here: what writes more fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_told_and_what_was_there_stays(tmp_path, small_files):
    path = tmp_path / "x"
    save_tensors(TENSORS, path, {"kind": "demo"})
    with pytest.raises(
        OSError, match=r"x could not be written: .*File too large.*What was there before is unchanged; make"
    ):
        save_tensors({"a": torch.zeros(1 << 16)}, path, {"kind": "demo"})
    assert load_tensors(path, kind="demo")[0].keys() == TENSORS.keys()
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(OSError, match=r"y/x could not be written: .*No such file or directory"):
        save_tensors(TENSORS, tmp_path / "y" / "x", {"kind": "demo"})


def test_other_values_are_put_into_files_one_by_one(tmp_path):
    files = {"one": {"a": torch.arange(3.0), "n": torch.tensor(4)}, "two": {"b": torch.zeros(2, 2).half()}}
    for name, tensors in files.items():
        save_file(tensors, tmp_path / name, {"kept": "yes"})
    new = {"b": torch.ones(2, 2).half().T, "n": torch.tensor(5)}
    refill([tmp_path / name for name in files], new.items())
    assert torch.equal(load_file(tmp_path / "one")["a"], torch.arange(3.0))
    assert int(load_file(tmp_path / "one")["n"]) == 5
    assert torch.equal(load_file(tmp_path / "two")["b"], new["b"])
    assert read_header(tmp_path / "two")[1] == {"kept": "yes"}
    with pytest.raises(ValueError, match=r"'a' has 8 bytes, and 12 in .*one; read the file again"):
        refill([tmp_path / "one"], [("a", torch.zeros(2))])
