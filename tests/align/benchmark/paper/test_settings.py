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
        family = next(iter(settings.families.values()))
        assert all(f.reported is None or f.reported in {**REPORTED, **LOSSES} for f in settings.families.values())
        config = training(family, 0, next(iter((settings.variants or {"": ()}).values())))
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
        read("mlp", ["only=[STL]"])
