"""Configs compose, and the command explains itself."""

import json
import subprocess
import sys

import pytest
from hydra import compose, initialize_config_dir

from align import DeepAlign
from align.configuration import choices, config_folder
from align.train import family_of
from align.trainer import TrainConfig
from align.zoo.architectures import ARCHITECTURES
from wsgraph import to_graph

TINY = ["zoo.train=4", "zoo.test=3", "arch.recipe.epochs=1", "optim.steps=2", "optim.pairs=2", "eval_pairs=2"]


def run(*words, cwd):
    command = [sys.executable, "-m", "align.train", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arch", choices("arch"))
def test_every_architecture_composes_into_a_traceable_network(arch):
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        config = compose("config", overrides=[f"+arch={arch}"])
    model = ARCHITECTURES[config.arch.make](**config.arch.args)
    assert to_graph(model, verify=False).spec.free
    TrainConfig(**config.loss, **config.optim, seed=config.seed)


def test_without_an_architecture_the_choices_are_listed(tmp_path):
    done = run(cwd=tmp_path)
    assert done.returncode != 0
    assert "no architecture chosen; pass +arch=<one of cnn, mlp, vgg11>" in done.stderr


def test_networks_of_a_family_differ_and_learn():
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        config = compose("config", overrides=["+arch=mlp", "zoo.train=3", "zoo.test=2", "arch.recipe.epochs=6"])
    family = family_of(config)
    assert (len(family.train), len(family.test)) == (3, 2)
    assert (family.train[0]["1.weight"] - family.train[1]["1.weight"]).abs().max() > 0.1
    x, y = family.held
    assert (family.module(family.test[0])(x).argmax(1) == y).float().mean() > 0.9


def test_a_tiny_run_ends_with_an_aligner_metrics_and_a_picture(tmp_path):
    done = run("+arch=mlp", *TINY, "output=out", "threads=1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "deep align" in done.stdout
    out = tmp_path / "out"
    files = {"model.safetensors", "config.json", "config.yaml", "metrics.json", "barrier.png"}
    assert {p.name for p in out.iterdir()} >= files
    assert set(json.loads((out / "metrics.json").read_text())) >= {"naive", "weight matching", "deep align"}
    assert not DeepAlign.from_pretrained(out).training
