"""Networks on disk as others wrote them: what is read, what is kept, what is refused."""

import json
import os
from collections import OrderedDict

import pytest
import torch
from networks import mlp
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from wsgraph import Permutation, to_graph, trace
from wsgraph.checkpoints import opened, read_checkpoint, require_output
from wsgraph.files import save_tensors

ENDINGS = [".safetensors", ".pt", ".pth"]


@pytest.fixture
def tensors():
    state = mlp(4, 6, 3).state_dict()
    return OrderedDict(reversed([*state.items(), ("step", torch.tensor(7)), ("half", torch.ones(2).bfloat16())]))


def write(tensors, path, meta=None):
    save_file(tensors, path, meta) if path.suffix == ".safetensors" else torch.save(tensors, path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_is_what_was_read_with_other_tensors(tensors, ending, tmp_path):
    source, target = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    write(tensors, source, {"format": "pt", "author": "me"})
    found = read_checkpoint(source)
    found.write([("0.weight", torch.zeros(6, 4).double())], target)
    again = read_checkpoint(target)
    assert list(again.tensors) == list(found.tensors)
    assert {k: t.dtype for k, t in again.tensors.items()} == {k: t.dtype for k, t in tensors.items()}
    assert not again.tensors["0.weight"].any()
    assert torch.equal(again.tensors["half"], tensors["half"])
    assert again.meta == found.meta
    assert sorted(os.listdir(tmp_path)) == [source.name, target.name]


def test_metadata_is_kept_to_the_letter(tensors, tmp_path):
    for name, meta in (("a", {"format": "pt"}), ("b", None)):
        write(tensors, tmp_path / f"{name}.safetensors", meta)
        read_checkpoint(tmp_path / f"{name}.safetensors").write((), tmp_path / "out.safetensors")
        with safe_open(tmp_path / "out.safetensors", "pt") as file:
            assert file.metadata() == meta
        assert (tmp_path / "out.safetensors").read_bytes() == (tmp_path / f"{name}.safetensors").read_bytes()


def test_a_digest_of_ours_goes_and_anybody_elses_stays(tensors, tmp_path):
    path = tmp_path / "a.safetensors"
    save_tensors(tensors, path, {"kind": "mine"})
    assert read_checkpoint(path).meta == {"kind": "mine"}
    write(tensors, path, {"digest": "theirs"})
    assert read_checkpoint(path).meta == {"digest": "theirs"}


def test_a_state_dict_beside_other_things_is_found(tensors, tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"epoch": 3, "optimizer": {"state": {0: {"m": torch.ones(1)}}}, "model": tensors}, path)
    assert list(read_checkpoint(path).tensors) == list(tensors)


def test_paths_are_networks(tmp_path):
    model = mlp(4, 6, 3)
    path = tmp_path / "a.safetensors"
    write(model.state_dict(), path)
    permutation = Permutation.random(trace(model))
    assert opened(model) is model
    for name in (path, str(path)):
        moved = permutation.apply(name)
        assert torch.equal(moved["0.weight"], permutation.apply(model.state_dict())["0.weight"])
        assert to_graph(name, spec=trace(model)).num_nodes == 13


class Hostile:
    def __reduce__(self):
        return os.system, ("true",)


REFUSED = {
    "a.onnx": (b"", ValueError, r"a.onnx ends in '.onnx', expected a .safetensors file, a state dict of torch.save"),
    "a": (b"", ValueError, "ends in 'nothing', expected"),
    "a.safetensors": (b"\x80\x04", ValueError, "It is a pickle"),
    "a.pt": (b"no pickle", ValueError, r"a.pt cannot be read as a state dict \(.*save its weights: torch.save"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_network(name, tmp_path):
    content, kind, message = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(kind, match=message):
        read_checkpoint(tmp_path / name)


def test_a_missing_file():
    with pytest.raises(FileNotFoundError, match=r"there is no file no.pt; expected a .safetensors file, a state dict"):
        read_checkpoint("no.pt")


CONTENTS = {
    "code": (Hostile(), "Only tensors are read from pickles, for others can run code"),
    "list": ([torch.ones(2)], "holds a list without a state dict; expected one, tensors by name"),
    "two": ({"ema": {"w": torch.ones(1)}, "model": {"w": torch.ones(1)}}, r"several state dicts, \['ema', 'model'\]"),
}


@pytest.mark.parametrize("what", CONTENTS)
def test_pickles_that_are_no_state_dict(what, tmp_path):
    content, message = CONTENTS[what]
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(ValueError, match=message):
        read_checkpoint(tmp_path / "a.pt")


def test_outputs_that_cannot_be_written(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "x.pt").mkdir()
    file, folder = tmp_path / "a.safetensors", tmp_path / "folder"
    with pytest.raises(ValueError, match=r"out is no name for a network: expected an ending of .safetensors, .pt"):
        require_output(tmp_path / "out", file)
    with pytest.raises(FileExistsError, match="folder exists already, and a folder is never overwritten"):
        require_output(folder, folder)
    with pytest.raises(IsADirectoryError, match=r"x.pt is a folder, expected the name of a file"):
        require_output(tmp_path / "x.pt", file)
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*none to write b.pt into; make it first"):
        require_output(tmp_path / "none" / "b.pt", file)


@pytest.fixture
def sharded(tmp_path):
    """A folder of two shards, as ``save_pretrained`` makes it, and what is in it."""
    folder = tmp_path / "hub"
    (folder / "extra").mkdir(parents=True)
    state = {"b.weight": torch.randn(3, 2), "a.weight": torch.randn(2, 2), "a.bias": torch.randn(2).half()}
    places = {"b.weight": "model-1.safetensors", "a.weight": "model-2.safetensors", "a.bias": "model-2.safetensors"}
    for name in set(places.values()):
        save_file({k: state[k] for k in state if places[k] == name}, folder / name, {"own": name})
    index = {"metadata": {"total_size": 44}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text("{}")
    (folder / "extra" / "model-1.safetensors").write_text("not one of the shards")
    return folder, state


def files_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_sharded_folder_is_written_as_it_was(sharded, tmp_path):
    folder, state = sharded
    found = read_checkpoint(folder)
    assert list(found.tensors) == list(state)
    found.write((), tmp_path / "same")
    assert files_of(tmp_path / "same") == files_of(folder)
    found.write([("a.weight", torch.zeros(2, 2))], tmp_path / "other")
    changed = {k for k, v in files_of(tmp_path / "other").items() if v != files_of(folder)[k]}
    assert changed == {"model-2.safetensors"}
    assert sorted(os.listdir(tmp_path)) == ["hub", "other", "same"]
    found.write((), tmp_path / "one.safetensors")
    assert load_file(tmp_path / "one.safetensors").keys() == state.keys()


def test_a_folder_that_could_not_be_written_is_not_there(sharded, tmp_path, monkeypatch):
    folder, _ = sharded
    found = read_checkpoint(folder)
    monkeypatch.setattr("wsgraph.sharded.refill", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        found.write((), tmp_path / "new")
    assert os.listdir(tmp_path) == ["hub"]


INDICES = {
    "no json": ("{", ValueError, "index.json is not JSON"),
    "no map": ("[]", ValueError, "has no weight_map from entries to files"),
    "elsewhere": ({"w": "../x.safetensors"}, ValueError, r"puts 'w' into '../x.safetensors', expected the name of a"),
    "pickle": ({"w": "x.bin"}, ValueError, r"puts 'w' into 'x.bin', expected the name of a safetensors file"),
    "missing": ({"w": "x.safetensors"}, FileNotFoundError, r"names x.safetensors, which is not there"),
    "another": ({"w": "model-1.safetensors"}, ValueError, r"says that 'w' is in model-1.safetensors, but it is not"),
}


@pytest.mark.parametrize("what", INDICES)
def test_an_index_that_is_wrong(what, sharded):
    content, kind, message = INDICES[what]
    text = content if isinstance(content, str) else json.dumps({"weight_map": content})
    (sharded[0] / "model.safetensors.index.json").write_text(text)
    with pytest.raises(kind, match=message):
        read_checkpoint(sharded[0])


def test_a_damaged_file_in_a_folder(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ValueError, match=r"model.safetensors is not a readable safetensors file"):
        read_checkpoint(tmp_path)


def test_a_folder_without_weights(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is a folder without model.safetensors or model.safetensors.index"):
        read_checkpoint(tmp_path)
