"""A contest is kept row by row, and goes on where it stopped."""

import json

import pytest
import torch

from align.benchmark import board as boards
from align.benchmark import contest
from align.benchmark.board import Board, read_results
from align.deep_align import DeepAlign, DeepAlignConfig
from align.zoo import Zoo
from wsgraph import EncoderConfig


@pytest.fixture(scope="module")
def aligner():
    torch.manual_seed(0)
    return DeepAlign(DeepAlignConfig(EncoderConfig(hidden=8, output=8, messages=8, sweeps=1))).eval()


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(contest, "SEEN", 50)
    monkeypatch.setattr(contest, "JUDGED", 50)
    monkeypatch.setattr(contest, "POINTS", 3)


def test_rows_are_judged_once_for_each_aligner(aligner, quick, tiny_zoo, tmp_path, monkeypatch):
    zoo = Zoo(tiny_zoo.folder, 4)
    Board(tmp_path, "Title").judge("some networks", "tiny", zoo, aligner)
    assert {path.name for path in tmp_path.iterdir()} >= {"results.json", "table.md", "some-networks.png"}
    again = Board(tmp_path, "Title")
    row = again.rows("some networks")["tiny"]
    assert list(row) == list(contest.METHODS)
    assert row["auto"].loss.shape == (2, 3)
    head = f"### some networks (aligner {contest.digest(aligner)})\n\n| networks | pairs | not aligned |"
    assert (tmp_path / "table.md").read_text().startswith(head)
    judged = []

    def remembered(zoo, name, aligner, labels):
        judged.append((name, len(labels)))
        return {label: row[label] for label in labels}

    monkeypatch.setattr(boards, "judge", remembered)
    again.judge("some networks", "tiny", zoo, aligner)
    assert judged == []
    again.judge("some networks", "more", Zoo(tiny_zoo.folder, 6), aligner)
    assert list(again.rows("some networks")) == ["tiny", "more"]
    again.judge("some networks", "tiny", zoo, DeepAlign())
    assert list(again.rows("some networks")) == ["tiny"]
    del again.stored["some networks"]["tiny"]["loss"]["auto"]
    assert "–" in contest.cells(again.rows("some networks")["tiny"])
    again.judge("some networks", "tiny", zoo, DeepAlign())
    assert list(again.rows("some networks")["tiny"]) == list(contest.METHODS)
    every = len(contest.METHODS)
    assert judged == [("some networks: more", every), ("some networks: tiny", every), ("some networks: tiny", 1)]


def test_networks_that_fit_signals_of_their_own_are_judged_on_them(aligner, quick, wave_zoo):
    chosen = ("not aligned", "activation matching, 2,000 images", "deep align", "auto, 2,000 labelled images")
    row = contest.judge(Zoo(wave_zoo.folder, 4), "waves", aligner, chosen)
    assert {label: line.loss.shape for label, line in row.items()} == dict.fromkeys(chosen, (2, 3))


def test_ratios_are_those_to_the_best_of_the_others():
    points = torch.linspace(0, 1, 3)
    heights = dict.fromkeys(contest.METHODS, 0.5) | {"weight matching": 0.2, "deep align": 0.3}
    heights["activation matching, 2,000 images"] = 0.1
    row = {label: contest.Barrier(points, torch.tensor([[0.0, h, 0.0]])) for label, h in heights.items()}
    assert contest.cells(row)[-2:] == ["1.50", "3.00"]


def test_results_of_another_version_are_named(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps({"ReLU": {"deep align": [0.1]}}))
    with pytest.raises(ValueError, match=r"results.json was written by another version; delete it, or choose another"):
        read_results(tmp_path)
