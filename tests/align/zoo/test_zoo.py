"""An opened zoo reads what is asked for, and says which file is damaged."""

import json
import pickle
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from align.zoo import DamagedShardError, Zoo, ZooConfig, build
from align.zoo.shard import file_name


@pytest.fixture
def zoo(waves: ZooConfig) -> Zoo:
    """Three shards of four."""
    return build(waves, 12)


def shard_path(zoo: Zoo, shard: int) -> Path:
    return zoo.folder / file_name(shard)


def test_opening_reads_no_shard(zoo: Zoo) -> None:
    before = zoo.tensors(0)
    content = {path: path.read_bytes() for path in zoo.folder.glob("shard-*")}
    for path in content:
        path.unlink()
    opened = Zoo(zoo.folder)
    assert len(opened) == 12
    assert repr(opened) == f"Zoo({zoo.folder.name}, 12 networks: train=8, val=2, test=2)"
    assert opened.members("val") == [8, 9]
    shard_path(zoo, 0).write_bytes(content[shard_path(zoo, 0)])
    assert all(torch.equal(t, before[k]) for k, t in opened.tensors(0).items()), "and a network needs its shard only"


def test_what_is_opened_does_not_depend_on_how_many_more_there_are(zoo: Zoo, waves: ZooConfig) -> None:
    fewer = build(waves, 5)  # two shards of four, and views in twos
    assert list(fewer.records) == list(pickle.loads(pickle.dumps(fewer)).records) == [0, 1, 2, 3, 4, 5]
    assert len(Zoo(zoo.folder)) == 12


def test_networks_are_modules_and_graphs(zoo: Zoo) -> None:
    x, y = zoo.task.samples("test", zoo.records[6].item)
    module = zoo.module(6)
    assert not module.training
    loss = torch.nn.functional.mse_loss(module(x), y).detach()
    assert float(loss) == pytest.approx(zoo.records[6].test_loss, rel=1e-5)
    graph = zoo.graph(6)
    assert all(torch.equal(graph.tensors[k], t) for k, t in zoo.tensors(6).items())
    assert graph.spec is zoo.spec
    with torch.no_grad():
        module[0].weight.zero_()
    assert zoo.module(6)[0].weight.abs().max() > 0, "every module is a copy"


def test_a_graph_needs_no_data(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ZooConfig, "make_task")
    assert zoo.graph(0).spec.free


def test_there_is_no_network_beyond_the_last(zoo: Zoo) -> None:
    for number in (12, -1):
        with pytest.raises(IndexError, match=f"no network {number} in .*it has 12; raise count to build more"):
            zoo.tensors(number)


def test_a_zoo_pickles(zoo: Zoo) -> None:
    expected = zoo.tensors(3)
    copied = pickle.loads(pickle.dumps(zoo))
    assert copied.records == zoo.records
    assert all(torch.equal(t, expected[k]) for k, t in copied.tensors(3).items())


def test_the_working_directory_may_change(zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(zoo.folder.parent)
    opened = Zoo(zoo.folder.name)
    monkeypatch.chdir(tmp_path)
    assert opened.tensors(0).keys() == zoo.tensors(0).keys()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 4
    path.write_bytes(content)


def flip_header(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[12] ^= 1
    path.write_bytes(content)


def foreign(path: Path) -> None:
    path.write_bytes((path.parent / file_name(2)).read_bytes())


DAMAGES = (truncate, empty, flip, flip_header, foreign, Path.unlink)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_shard_is_named_with_what_repairs_it(damage: Callable[[Path], None], zoo: Zoo) -> None:
    damage(shard_path(zoo, 1))
    opened = Zoo(zoo.folder)
    for method in (opened.tensors, opened.module, opened.graph):
        with pytest.raises(DamagedShardError) as caught:
            method(5)
        assert str(shard_path(zoo, 1)) in str(caught.value)
        assert str(caught.value).endswith(f"Rebuild it with: python -m align.zoo folder={zoo.folder}")
    for number in (0, 3, 8, 11):
        assert opened.tensors(number).keys() == zoo.tensors(0).keys(), "other shards keep working"
    assert opened.sound_shards() == [0, 2]


def test_the_command_is_quoted_where_a_shell_needs_it(waves: ZooConfig, tmp_path: Path) -> None:
    zoo = build(waves, 1, tmp_path / "my zoo, (new)")
    empty(shard_path(zoo, 0))
    with pytest.raises(DamagedShardError) as caught:
        zoo.tensors(0)
    command = str(caught.value).partition("Rebuild it with: ")[2]
    assert shlex.split(command) == ["python", "-m", "align.zoo", f"folder='{zoo.folder}'"]


def test_a_folder_without_an_index_is_no_zoo(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no zoo.json in .*Build one with: python -m align.zoo \+arch=mlp"):
        Zoo(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON .*delete it and build the zoo again"),
        ("[]", "not a zoo's index of format 1"),
        (json.dumps({"format": 2}), "not a zoo's index of format 1; update the package"),
    ],
)
def test_an_index_of_another_kind_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "zoo.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        Zoo(tmp_path)


def test_the_index_tells_all(digits: ZooConfig) -> None:
    zoo = build(replace(digits, together=1), 2)
    index = json.loads((zoo.folder / "zoo.json").read_text())
    assert ZooConfig.from_json(index["config"]) == zoo.config
    assert list(index["shards"]) == ["0", "1"]
    (record,) = index["shards"]["1"]["records"]
    assert {k: record[k] for k in ("number", "item", "seed", "part")} == {
        "number": 1, "item": 1, "seed": 1, "part": "train",
    }  # fmt: skip
    assert 0 <= record["test_accuracy"] <= 1 < record["train_loss"]
