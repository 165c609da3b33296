"""What defines a zoo, and what it is called."""

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from align.zoo import Recipe, ZooConfig, zoo_folder
from align.zoo.architectures import own_class


def test_views_of_one_item_stay_in_one_part(waves: ZooConfig) -> None:
    parts = [waves.part_of(n) for n in range(24)]
    assert parts[::2] == parts[1::2]
    assert parts[::2] == (["train"] * 4 + ["val"] + ["test"]) * 2
    assert [waves.item_of(n) for n in range(6)] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("split", [(1, 0, 0), (2, 1, 0), (0, 0, 3), (3, 2, 1)])
def test_the_split_is_kept_among_every_few_networks(digits: ZooConfig, split: tuple[int, int, int]) -> None:
    config = replace(digits, split=split)
    parts = [config.part_of(n) for n in range(5 * sum(split))]
    assert tuple(parts.count(p) // 5 for p in ("train", "val", "test")) == split


CHANGES: list[dict[str, Any]] = [
    {"make": "inr"},
    {"args": {"inputs": [1, 8, 8], "hidden": [7]}},
    {"data": "mnist"},
    {"shape": (3, 8, 8)},
    {"side": "first"},
    {"recipe": Recipe(epochs=3, batch=64)},
    {"recipe": Recipe(epochs=2, batch=64, lr=2e-3)},
    {"together": 4},
    {"seed": 1},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_the_folder_changes_with_whatever_changes_networks(digits: ZooConfig, change: dict[str, Any]) -> None:
    assert zoo_folder(replace(digits, **change)) != zoo_folder(digits)


def test_the_folder_is_in_the_cache_and_names_the_zoo(digits: ZooConfig, cache) -> None:
    folder = zoo_folder(digits)
    assert folder.parent == cache / "zoos"
    assert folder.name.startswith("mlp-digits-")
    assert zoo_folder(replace(digits, side="second")).name.startswith("mlp-digits-second-")
    assert folder == zoo_folder(ZooConfig.from_json(digits.to_json())), "and it does not depend on the session"


def test_json_and_back(digits: ZooConfig, waves: ZooConfig) -> None:
    for config in (digits, waves):
        assert ZooConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_networks_follow_from_their_seed_only(digits: ZooConfig) -> None:
    before = torch.get_rng_state()
    first, again, other = (digits.network(seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before), "the caller's random numbers stay"
    assert all(torch.equal(first[k], again[k]) for k in first)
    assert not torch.equal(first["1.weight"], other["1.weight"])


def test_seeds_of_zoos_do_not_meet(digits: ZooConfig) -> None:
    other = replace(digits, seed=1)
    assert digits.seed_of(999_999) < other.seed_of(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"make": "nets:Net"}, "no architecture 'nets:Net' in this package.* bring it: make=Net in Python, arch.make="),
        ({"make": "nets:Net", "own": torch.nn.Identity}, "are of class nets:Net, got make=Identity"),
        ({"own": torch.nn.Identity}, "are made by 'mlp': leave make=Identity out"),
        ({"task": "guess"}, "no task 'guess'; choose classify"),
        ({"shape": (0, 8, 8)}, "shape is .*expected three numbers of at least 1"),
        ({"together": 3, "views": 2}, "together=3 is not a multiple of views=2"),
        ({"together": 0}, "together=0, .*expected at least 1"),
        ({"split": (0, 0, 0)}, "expected at least 1"),
        ({"split": (8, 1)}, r"split is \(8, 1\), expected three numbers"),
        ({"split": (8, -1, 1)}, "expected three numbers"),
    ],
)
def test_nonsense_is_refused(digits: ZooConfig, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(digits, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "got epochs=0, batch=128: expected at least 1"),
        ({"lr": float("nan")}, "got lr=nan, decay=0.0: expected an lr above 0"),
        (
            {"optimiser": "lion"},
            "got optimiser='lion', init='default': expected one of adam, sgd, and one of default, he",
        ),
    ],
)
def test_recipes_that_train_nothing_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe(**change)


def test_a_class_of_ones_own_is_known_by_its_name(digits: ZooConfig) -> None:
    config = replace(digits, make=torch.nn.Identity, args={})
    assert config.make == "torch.nn.modules.linear:Identity"
    assert isinstance(config.network(0), torch.nn.Identity)
    assert ZooConfig.from_json(config.to_json(), torch.nn.Identity) == config
    with pytest.raises(ValueError, match=r"no architecture 'torch.nn.modules.linear:Identity' in this package"):
        ZooConfig.from_json(config.to_json())


def test_arguments_that_a_network_does_not_take_are_told(digits: ZooConfig) -> None:
    with pytest.raises(
        ValueError, match=r"mlp cannot be made with {'depth': 3}: .*unexpected keyword argument 'depth'"
    ):
        replace(digits, args={"depth": 3}).network(0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:Net", "'nowhere:Net': cannot import 'nowhere'"),
        ("subprocess:run", "'subprocess:run' is <function run .*expected a subclass of nn.Module"),
        ("perceiver", "no architecture 'perceiver'; choose one of mlp, cnn, "),
    ],
)
def test_a_name_that_is_no_class_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        own_class(name)


def test_a_vgg_that_is_not_there_is_refused(digits: ZooConfig) -> None:
    config = replace(digits, make="vgg", args={"depth": 13})
    with pytest.raises(ValueError, match="no VGG of depth 13; choose one of 11, 16"):
        config.network(0)
