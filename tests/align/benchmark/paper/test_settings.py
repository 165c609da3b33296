"""Every experiment composes at every scale, down to the trainings it asks for."""

import pytest

from align.benchmark.paper.experiments import KINDS
from align.benchmark.paper.reported import LOSSES, REPORTED
from align.benchmark.paper.settings import SCALES, names, read, training
from align.learning.stages import train_config
from align.zoo.composed import zoo_configs


@pytest.mark.parametrize("name", names())
def test_every_experiment_composes(name):
    for scale in SCALES:
        settings = read(name, [f"scale={scale}"])
        assert settings.kind in KINDS
        assert settings.scale == scale
        assert all(f.reported is None or f.reported in {**REPORTED, **LOSSES} for f in settings.families.values())
        for family in settings.families.values():
            for words in (settings.variants or {"": ()}).values():
                config = training(family, 0, words)
                assert zoo_configs(config, config.zoo)
                assert train_config(config).steps > 0


@pytest.mark.parametrize("word", ["pairs=7", "+pairs=7", "++pairs=7"])
def test_a_word_outdoes_the_scale(word):
    assert read("mlp", ["scale=smoke", word]).pairs == 7
    assert read("mlp", ["scale=smoke"]).pairs == 2


def test_what_is_not_there_is_answered_with_what_is():
    with pytest.raises(ValueError, match=r"no experiment 'mpl'; choose one of ablation, .*mlp"):
        read("mpl")
    with pytest.raises(ValueError, match="scale=tiny is not one of smoke, laptop, paper"):
        read("mlp", ["scale=tiny"])
    with pytest.raises(ValueError, match="no family contains STL; there are MNIST MLP, CIFAR-10 MLP"):
        read("mlp", ["only=[MNIST,STL]"])


@pytest.mark.parametrize("word", ["only=MNIST", "only=[MNIST]"])
def test_families_are_chosen_by_a_word_of_their_names(word):
    assert list(read("mlp", [word]).families) == ["MNIST MLP"]


def test_a_family_joins_in_where_its_data_is(tmp_path, monkeypatch):
    monkeypatch.setenv("WSGRAPH_DATA", str(tmp_path))
    assert list(read("cnn").families) == ["CIFAR-10 CNN"]
    assert list(read("cnn", ["only=[STL]"]).families) == ["STL-10 CNN"]
    (tmp_path / "stl10").mkdir()
    (tmp_path / "stl10" / "stl10.safetensors").touch()
    assert list(read("cnn").families) == ["CIFAR-10 CNN", "STL-10 CNN"]


@pytest.mark.parametrize("word", ["seeds=0", "pairs=0", "slow=-1", "points=1"])
def test_numbers_that_make_no_sense_are_refused(word):
    with pytest.raises(ValueError, match=f"{word}: expected at least"):
        read("mlp", [word])
    with pytest.raises(ValueError, match="slow=0: expected at least 1"):
        read("init", ["slow=0"])
