"""Networks of one's own as a zoo: its parts, what aligners learn from it, what is refused."""

import pickle
import re
from itertools import chain

import pytest
import torch
from networks import cnn, mlp
from safetensors.torch import save_file
from torch import nn

from align import DeepAlign, DeepAlignConfig
from align.data import load
from align.judging.compare import compare, summary
from align.learning.settings import TrainConfig
from align.learning.trainer import train_aligner
from align.zoo import from_checkpoints
from wsgraph import EncoderConfig

X, Y = torch.randn(40, 6, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 3


def network():
    return mlp(6, 8, 3)


@pytest.fixture
def files(tmp_path):
    """Nine networks, one of them in half precision and with an entry that is none of the network's."""
    for k in range(9):
        state = network().state_dict()
        if k == 4:
            state = {**{name: t.half() for name, t in state.items()}, "ema": torch.ones(1)}
        save_file(state, tmp_path / f"{k}.safetensors")
    return sorted(tmp_path.iterdir())


def test_every_network_is_in_one_part(files):
    zoo = from_checkpoints(files, model=network, data=(X, Y))
    parts = {part: zoo.members(part) for part in ("train", "val", "test")}
    assert sorted(chain(*parts.values())) == list(range(9))
    assert [len(numbers) for numbers in parts.values()] == [5, 2, 2]
    again = from_checkpoints([str(file) for file in files], model=network(), data=(X, Y))
    assert again.records == zoo.records
    assert from_checkpoints(files, model=network, data=(X, Y), seed=1).members("test") != parts["test"]
    assert re.fullmatch(r"Zoo\(own-[0-9a-f]{8}, 9 networks: train=5, val=2, test=2\)", repr(zoo))
    save_file(network().state_dict(), files[0])  # whoever goes on with a training must see that it is another zoo
    assert repr(from_checkpoints(files, model=network, data=(X, Y))) != repr(zoo)


def test_networks_are_those_of_the_files(files):
    zoo = from_checkpoints(files, model=network, data=(X, Y))
    assert zoo.tensors(4)["0.weight"].dtype == torch.float32
    assert zoo.graph(4).num_nodes == 17
    x, y = zoo.task.samples("test")
    assert len(x) == 8
    assert torch.equal(x, X[4::5])
    loss = torch.nn.functional.cross_entropy(zoo.module(3)(x), y)
    assert zoo.records[3].test_loss == pytest.approx(loss.item())
    numbers = from_checkpoints(files, model=network, data=(X, X[:, :3]))
    assert numbers.task.loss is torch.nn.functional.mse_loss
    assert torch.equal(pickle.loads(pickle.dumps(zoo)).tensors(2)["2.bias"], zoo.tensors(2)["2.bias"])


def test_a_data_set_brings_its_own_parts(tmp_path):
    data = load("digits")
    networks = [nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.ReLU(), nn.Linear(4, 10)) for _ in range(8)]
    for k, model in enumerate(networks):
        torch.save(model.state_dict(), tmp_path / f"{k}.pt")
    zoo = from_checkpoints(sorted(tmp_path.iterdir()), model=networks[0], data=data)
    assert zoo.task.samples("test") is data.test
    assert zoo.records[0].test_accuracy is not None


def test_an_aligner_learns_from_it(files):
    zoo = from_checkpoints(files, model=network, data=(X, Y), name="mine")
    aligner = DeepAlign(DeepAlignConfig(encoder=EncoderConfig(hidden=8, output=8)))
    config = TrainConfig(steps=2, pairs=2, images=4, validate=1)
    found = compare(train_aligner(aligner, [zoo], config), zoo, pairs=1, points=3, images=8, sinkhorn=0)
    assert "deep align" in summary(found)


def test_the_same_network_in_two_parts(files):
    zoo = from_checkpoints(files, model=network, data=(X, Y))
    first, second = (zoo.members(part)[0] for part in ("train", "test"))
    files[second].write_bytes(files[first].read_bytes())
    with pytest.raises(
        ValueError, match=r"safetensors hold the same network, one to t\w+ and one to t\w+ with: an ali"
    ):
        from_checkpoints(files, model=network, data=(X, Y))
    files[zoo.members("train")[1]].write_bytes(files[first].read_bytes())
    save_file(network().state_dict(), files[second])
    assert len(from_checkpoints(files, model=network, data=(X, Y))) == 9  # twins of one part do no harm


def test_what_is_refused(files):
    with pytest.raises(ValueError, match=r"got 7 networks, expected at least 8: four to train .* align.match needs no"):
        from_checkpoints(files[:7], model=network, data=(X, Y))
    with pytest.raises(ValueError, match=r"data is a Tensor, expected a DataSet or a pair \(inputs, targets\)"):
        from_checkpoints(files, model=network, data=X)
    with pytest.raises(ValueError, match=r"0.safetensors: Sequential has .* entries that the checkpoint lacks"):
        from_checkpoints(files, model=cnn, data=(X, Y))
    save_file({**network().state_dict(), "0.bias": torch.full((8,), torch.nan)}, files[2])
    with pytest.raises(ValueError, match=r"2.safetensors: '0.bias' holds 8 NaN or infinite values"):
        from_checkpoints(files, model=network, data=(X, Y))
