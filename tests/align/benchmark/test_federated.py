"""Federations of the benchmark: the same clients for every method, and runs that are kept."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from align.benchmark.clients import Clients, Protocol
from align.benchmark.federated import run
from align.benchmark.rounds import Run, Runs, cells

PROTOCOL = Protocol("digits", strangers=True, clients=4, sampled=2, steps=3, alone=5, hidden=(8,))


def test_clients_hold_their_own_images_and_train_as_if_alone() -> None:
    clients = Clients(PROTOCOL, 0)
    assert sorted(torch.cat(clients.parts).tolist()) == list(range(len(clients.data.train[1])))
    start = dict(clients.network().state_dict())
    both = clients._trained([1, 3], [start, start], 2, 3)
    (alone,) = clients._trained([3], [start], 2, 3)
    assert all(torch.allclose(alone[name], both[1][name], atol=1e-6) for name in alone)
    assert not torch.equal(both[0]["1.weight"], both[1]["1.weight"])


def test_strangers_are_aligned_and_clients_of_one_network_need_not_be() -> None:
    strangers = run(Clients(PROTOCOL, 0), "weight matching", 2, {})
    assert [len(values) for values in (strangers.accuracy, strangers.moved, strangers.seconds)] == [3, 2, 2]
    assert strangers.moved[0] > 0.5
    one = replace(PROTOCOL, strangers=False)
    aligned, plain = (run(Clients(one, 0), label, 2, {}) for label in ("weight matching", "FedAvg"))
    assert aligned.moved == [0, 0]
    assert aligned.accuracy == pytest.approx(plain.accuracy)


def test_runs_are_kept_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, key = Runs(tmp_path, ["FedAvg"], 1), ("digits", "strangers", "FedAvg", 0)
    runs.add(key, {"rounds": 3}, Run([0.1, 0.5, 0.85, 0.8], [0, 0, 0], [1, 1, 4]))
    runs.add((*key[:3], 1), {"rounds": 3}, Run([0.0, 0.0, 0.0, 0.0], [0, 0, 0], [1, 1, 4]))
    again = Runs(tmp_path, ["FedAvg"], 1)
    assert again.has(key, {"rounds": 3})
    assert not again.has(key, {"rounds": 4})
    again.show()
    assert "rounds to 80%" in capsys.readouterr().out
    assert "| FedAvg | 1 | 50.0 | 80.0 | 80.0 | 1.0 | 2.0 | 2.0 | 0.0% | 2.000 |" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "digits-strangers.png").exists()
    assert cells([Run([0, 0.9], [0], [1]), Run([0, 0.5], [0], [1])])[-3] == "not always"
