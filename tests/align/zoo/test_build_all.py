"""Many small zoos in one call, by several processes or one."""

from pathlib import Path

import pytest

from align.zoo import Recipe, Zoo, ZooConfig, build_all, zoo_folder


@pytest.fixture
def configs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[ZooConfig]:
    monkeypatch.setenv("WSGRAPH_DATA", str(tmp_path))
    args = {"inputs": [1, 8, 8], "hidden": [6]}
    return [ZooConfig(f"tiny{k}", "dense", args, recipe=Recipe(1, 256), together=2, seed=k) for k in range(3)]


@pytest.mark.parametrize("workers", [1, 2])
def test_all_are_built_and_built_once(configs: list[ZooConfig], workers: int) -> None:
    zoos = build_all(configs, 4, workers)
    assert [zoo.config for zoo in zoos] == configs
    assert [len(zoo) for zoo in zoos] == [4, 4, 4]
    before = {path: path.stat().st_mtime_ns for c in configs for path in zoo_folder(c).glob("shard-*")}
    assert [len(zoo) for zoo in build_all(configs, 4, workers)] == [4, 4, 4]
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_it_goes_on_where_it_was_interrupted(configs: list[ZooConfig]) -> None:
    build_all(configs[:1], 2)
    assert [len(zoo) for zoo in build_all(configs, 4)] == [4, 4, 4]
    assert len(Zoo(zoo_folder(configs[0]))) == 4


def test_optimisers_and_initialisations_make_other_networks(configs: list[ZooConfig]) -> None:
    plain = configs[0]
    recipes = [Recipe(1, 256, 1e-2, "sgd"), Recipe(1, 256, 1e-2, decay=0.1), Recipe(1, 256, 1e-2, init="orthogonal")]
    others = [ZooConfig(plain.name, plain.make, plain.args, recipe=r, together=2) for r in recipes]
    assert len({c.folder_name for c in (plain, *others)}) == 4
    sums = [float(sum(t.abs().sum() for t in zoo.tensors(0).values())) for zoo in build_all([plain, *others], 2)]
    assert len({round(s, 3) for s in sums}) == 4
    assert "optimiser" not in plain.to_json()["recipe"], "zoos of earlier versions keep their names"
