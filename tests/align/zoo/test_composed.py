"""Every architecture composes with every preset, and is a network that becomes a graph."""

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from align.configuration import choices, config_folder
from align.zoo.composed import build_zoos, zoo_configs
from wsgraph import to_graph


def composed(*overrides: str) -> DictConfig:
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        return compose("zoo", overrides=list(overrides))


@pytest.mark.parametrize("arch", [arch for arch in choices("arch") if arch != "own"])
@pytest.mark.parametrize("preset", choices("preset"))
def test_every_architecture_with_every_preset(arch: str, preset: str) -> None:
    config = composed(f"+arch={arch}", f"preset={preset}")
    assert config.count > 0
    zoos = zoo_configs(config, config)
    assert len({zoo.folder_name for zoo in zoos}) == len(zoos) == (3 if arch == "mlp_diverse" else 1)
    for zoo in zoos:
        assert to_graph(zoo.network(0), zoo.example_input(), verify=preset == "laptop").spec.free


@pytest.mark.parametrize("data", [data for data in choices("data") if data != "own"])
def test_every_data_set_says_what_networks_need(data: str) -> None:
    config = composed("+arch=mlp", f"data={data}")
    (zoo,) = zoo_configs(config, config)
    assert zoo.network(0)(zoo.example_input()).shape == (2, 10)
    assert zoo.data == data
    assert zoo.recipe.epochs == config.data.epochs


@pytest.mark.parametrize(("arch", "count"), [("cnn", 311_690), ("vgg11", 9_750_922)])
def test_full_width_has_the_published_number_of_parameters(arch: str, count: int) -> None:
    config = composed(f"+arch={arch}", "arch.args.width=1")
    (zoo,) = zoo_configs(config, config)
    assert sum(p.numel() for p in zoo.network(0).parameters()) == count


@pytest.mark.parametrize("preset", choices("preset"))
def test_the_deepest_network_tells_inputs_apart_before_it_learned_anything(preset: str) -> None:
    config = composed("+arch=vgg16", f"preset={preset}")
    (zoo,) = zoo_configs(config, config)
    said = zoo.network(0)(torch.rand(8, 3, 32, 32))
    assert float(said.detach().std(0).mean()) > 1e-2  # 1e-8 by torch's own rule, and nothing is learned from that


def test_waves_have_no_data_set() -> None:
    config = composed("+arch=inr_sine", "data=cifar10")
    (zoo,) = zoo_configs(config, config)
    assert (zoo.data, zoo.side) == (None, "all")


def test_one_folder_cannot_hold_several_zoos(tmp_path) -> None:
    config = composed("+arch=mlp_diverse", f"folder={tmp_path}")
    with pytest.raises(ValueError, match="but mlp_diverse is 3 zoos; leave it out"):
        build_zoos(config, config)


def test_building_what_a_config_describes(cache) -> None:
    words = ("together=2", "variants={mlp3: {hidden: [4]}, mlp4: {hidden: [4, 4]}}", "laptop.recipe.epochs=1")
    overrides = [f"++arch.{word}" for word in words if not word.startswith("variants")]
    config = composed("+arch=mlp_diverse", "~arch.variants", f"+arch.{words[1]}", *overrides, "count=3", "workers=1")
    zoos = build_zoos(config, config)
    assert [len(zoo) for zoo in zoos] == [3, 3]
    assert [zoo.folder.parent for zoo in zoos] == [cache / "zoos"] * 2
    assert [len(zoo.tensors(0)) for zoo in zoos] == [4, 6]
