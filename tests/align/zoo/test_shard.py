"""A shard: what is trained, recorded and written."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from align.zoo import Recipe, ZooConfig
from align.zoo.shard import OpenShard, checksum, file_name, train_shard, write_shard
from wsgraph.modules import with_tensors


@torch.no_grad()
def test_records_say_what_networks_are_and_how_good(digits: ZooConfig) -> None:
    config = replace(digits, together=3, seed=2, recipe=Recipe(epochs=5, batch=64, lr=1e-2))
    task = digits.make_task()
    with torch.enable_grad():
        tensors, records = train_shard(config, task, 1)
    assert tensors["1.weight"].shape == (3, 6, 64)
    assert [r.number for r in records] == [r.item for r in records] == [3, 4, 5]
    assert [r.seed for r in records] == [2_000_003, 2_000_004, 2_000_005]
    assert [r.part for r in records] == ["train", "val", "test"]
    for place, record in enumerate(records):
        model = with_tensors(config.network(0), {k: t[place] for k, t in tensors.items()})
        for loss, accuracy, (x, y) in (
            (record.train_loss, record.train_accuracy, task.samples("train")),
            (record.test_loss, record.test_accuracy, task.samples("test")),
        ):
            assert loss == pytest.approx(float(F.cross_entropy(model(x), y)), rel=1e-4)
            assert accuracy == pytest.approx(float((model(x).argmax(1) == y).float().mean()), abs=1e-6)
        assert record.test_accuracy is not None
        assert record.test_accuracy > 0.3, "better than guessing"


@torch.no_grad()
def test_views_of_a_wave_fit_the_same_wave_from_different_starts(waves: ZooConfig) -> None:
    task, seen = waves.make_task(), 0

    def step() -> None:
        nonlocal seen
        seen += 1

    with torch.enable_grad():
        tensors, records = train_shard(waves, task, 1, step)
    assert seen == 2
    assert [r.item for r in records] == [2, 2, 3, 3]
    assert records[0].test_accuracy is None
    assert not torch.equal(tensors["0.weight"][0], tensors["0.weight"][1])
    model = with_tensors(waves.network(0), {k: t[3] for k, t in tensors.items()})
    x, y = task.samples("train", 3)
    assert records[3].train_loss == pytest.approx(float(F.mse_loss(model(x), y)), rel=1e-5)


def test_a_network_does_not_depend_on_the_number_of_threads(digits: ZooConfig) -> None:
    task = digits.make_task()
    one, _ = train_shard(digits, task, 0)
    torch.set_num_threads(2)
    try:
        two, _ = train_shard(digits, task, 0)
        assert torch.get_num_threads() == 2, "the caller's setting stays"
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(one[k], two[k]) for k in one)


def test_batchnorm_goes_through_the_file(tmp_path: Path, digits: ZooConfig) -> None:
    args = {"depth": 11, "width": 0.03125, "batchnorm": True}
    config = replace(digits, make="vgg", args=args, shape=(3, 32, 32), together=1)
    state = config.network(5).state_dict()
    write_shard(tmp_path, 0, {k: t[None] for k, t in state.items()})
    read = OpenShard(tmp_path / file_name(0), 1).tensors(0)
    assert read.keys() == state.keys()
    assert all(torch.equal(read[k], state[k]) and read[k].shape == state[k].shape for k in state)
    config.network(0).load_state_dict(read)


def test_what_is_read_is_the_readers_own(tmp_path: Path) -> None:
    written = {"w": torch.arange(6.0).view(2, 3)}
    assert write_shard(tmp_path, 7, written) == checksum(tmp_path / "shard-00007.safetensors")
    shard = OpenShard(tmp_path / "shard-00007.safetensors", 2)
    shard.tensors(1)["w"].zero_()
    assert torch.equal(shard.tensors(1)["w"], written["w"][1])
    assert [path.name for path in tmp_path.iterdir()] == ["shard-00007.safetensors"]


def test_a_shard_of_other_networks_is_refused(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, {"w": torch.zeros(2, 3)})
    with pytest.raises(ValueError, match=r"w has the shape \[2, 3\], expected 4 networks along its first axis"):
        OpenShard(tmp_path / file_name(0), 4)
