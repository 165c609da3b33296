"""The model card says what is on disk, and refuses what does not belong together."""

import json
import shutil
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from align.benchmark import card as cards
from align.benchmark.contest import METHODS, digest
from align.benchmark.mixture import describe
from align.benchmark.zero_shot import ROWS, SECTION
from align.configuration import config_folder
from align.deep_align import DeepAlign, DeepAlignConfig
from align.zoo import Recipe, ZooConfig
from align.zoo.families import family
from wsgraph import EncoderConfig


def run_folder(folder: Path, *changes: str) -> Path:
    folder.mkdir()
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        config = compose("config", ["+experiment=universal", "start=new", f"output={folder}", *changes])
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(config))
    return folder


@pytest.fixture
def made(tmp_path):
    """Run folder, results and bundled folder of a tiny aligner of two stages."""
    aligner = DeepAlign(DeepAlignConfig(EncoderConfig(hidden=8, output=8, messages=8, sweeps=1)))
    first = run_folder(tmp_path / "first", "families.drawn.count=3", "optim.steps=30")
    last = run_folder(tmp_path / "last", f"start={first}", "families.drawn.count=8", "optim.lr=4e-3")
    results, bundled = tmp_path / "results", tmp_path / "bundled"
    for folder in (last, bundled):
        aligner.save_pretrained(folder)
    heights = {"not aligned": 1.0, "weight matching": 0.2, "activation matching on noise": 0.4, "deep align": 0.1}
    (last / "metrics.json").write_text(json.dumps({"zoo": {k: {"barrier": v} for k, v in heights.items()}}))
    loss = {label: [[0.0, 0.3 if label == "deep align" else 0.2, 0.0]] * 2 for label in METHODS}
    entry = {"networks": "zoo", "count": 4, "aligner": digest(aligner), "points": [0.0, 0.5, 1.0], "loss": loss}
    results.mkdir()
    (results / "results.json").write_text(json.dumps({SECTION: dict.fromkeys(ROWS, entry)}))
    return last, results, bundled


def test_a_card_tells_training_families_and_results(made):
    last, results, bundled = made
    cards.write(last, results, bundled)
    text = (bundled / "README.md").read_text()
    first = last.parent / "first"
    command = "python -m align.train +experiment=universal"
    assert f"{command} optim.steps=30 output={first} families.drawn.count=3" in text
    assert f"{command} optim.lr=0.004 output={last} start={first} families.drawn.count=8" in text
    assert "- 30 steps from scratch on 3 families of 24 networks (seed 0)" in text
    assert "steps from the stage before on 8 families" in text
    assert "is 0.55 in the geometric mean, and below 1 on 1 of them" in text
    assert "| ReLU 784-128³-10 | 2 | 0.2 |" in text
    assert "- It loses to the best classic method without data on: ReLU 784-128³-10 (1.50 ×), tanh" in text
    assert describe([family(k) for k in range(8)], 24) in text


def test_results_alone_are_written_anew(made):
    last, results, bundled = made
    with pytest.raises(SystemExit, match="is no card of this command"):
        cards.write(None, results, bundled)
    cards.write(last, results, bundled)
    text = (bundled / "README.md").read_text()
    shutil.rmtree(last)
    stored = (results / "results.json").read_text()
    (results / "results.json").write_text(stored.replace("0.3", "0.1"))
    cards.write(None, results, bundled)
    again = (bundled / "README.md").read_text()
    assert again != text
    assert again[: again.index("Barriers between")] == text[: text.index("Barriers between")]
    assert "(1.50 ×)" not in again
    (bundled / "README.md").write_text("something else")
    with pytest.raises(SystemExit, match="is no card of this command; name the folder of the training"):
        cards.write(None, results, bundled)


def test_results_of_another_aligner_are_refused(made):
    last, results, bundled = made
    stored = json.loads((results / "results.json").read_text())
    stored[SECTION]["LSTM"]["aligner"] = "another"
    (results / "results.json").write_text(json.dumps(stored))
    with pytest.raises(SystemExit, match=r"has no results of the bundled aligner for LSTM; run python -m align"):
        cards.write(last, results, bundled)


def test_the_run_of_another_aligner_is_refused(made):
    last, results, bundled = made
    shutil.rmtree(last.parent / "first")
    with pytest.raises(SystemExit, match=r"no config.yaml in .*first; expected the folder of a finished align.train"):
        cards.write(last, results, bundled)
    DeepAlign(DeepAlignConfig(EncoderConfig(hidden=8, output=8, messages=8, sweeps=1))).save_pretrained(last)
    run_folder(last.parent / "first")
    with pytest.raises(SystemExit, match=r"the aligner in .*last is not the one in .*bundled; copy its config.json"):
        cards.write(last, results, bundled)


def test_the_run_of_an_architecture_is_refused(made):
    last, results, bundled = made
    (last / "config.yaml").write_text("start: new\n")
    with pytest.raises(SystemExit, match=r"has no families.drawn; expected a run of \+experiment=universal"):
        cards.write(last, results, bundled)


def test_a_mixture_is_told_by_kind():
    configs = [
        ZooConfig("family0-dense", "dense", {"inputs": 64, "hidden": [24, 16], "norm": "batch"}, shape=(1, 8, 8)),
        ZooConfig("family1-table", "dense", {"inputs": 5, "hidden": [40]}, "table", "teacher-1"),
        ZooConfig("family2-dense", "dense", {"inputs": 64, "hidden": [96], "norm": "none"}, recipe=Recipe(lr=0.01)),
    ]
    lines = describe(configs, 24).splitlines()
    assert lines[0] == "| kind | families | sizes and parts | data |"
    assert "| dense | 2 | hidden 16–96 in 1–2 layers; norm batch, none | digits 8 × 8, digits |" in lines
    assert "| table | 1 | hidden 40 in 1 layers | random functions |" in lines
    assert lines[-1] == (
        "24 networks each. Of every 6 networks of a family 4 were for learning and 1 for validation. Optimisers: adam. "
        "Initialisations: default. Learning rates: 0.001–0.01."
    )
