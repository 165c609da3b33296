"""An index that was changed, on purpose or by a failing disk, is refused; so is code that it names."""

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from align.zoo import Recipe, Zoo, ZooConfig, build
from align.zoo.index import INDEX, _digest


class Mine(nn.Sequential):
    """A class of the user's."""

    def __init__(self, width: int = 4) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The index of a zoo of two shards."""
    args = {"inputs": 1, "outputs": 1, "hidden": 4, "layers": 3}
    config = ZooConfig("waves", "inr", args, "waves", None, recipe=Recipe(1, 256), together=4, views=2)
    folder = tmp_path_factory.mktemp("zoo")
    build(config, 8, folder)
    return (folder / INDEX).read_text()


@pytest.fixture
def changed(written: str, tmp_path: Path) -> Callable[..., Path]:
    """Writes the index with a change, under the digest of before, a new one, or none."""

    def write(change: Callable[[dict[str, Any]], object], digest: str = "new") -> Path:
        index = json.loads(written)
        change(index)
        if digest != "old":
            del index["digest"]
        if digest == "new":
            index["digest"] = _digest(index)
        (tmp_path / INDEX).write_text(json.dumps(index))
        return tmp_path

    return write


@pytest.mark.parametrize(
    "change",
    [
        lambda i: i["config"].update(together=2),
        lambda i: i["config"]["args"].update(frequency=29.0),
        lambda i: i["shards"]["1"]["records"][0].update(test_loss=0.1),
        lambda i: i["shards"].pop("1"),
    ],
)
def test_any_change_is_damage(change: Callable[[dict[str, Any]], object], changed: Callable[..., Path]) -> None:
    with pytest.raises(ValueError, match=r"zoo.json is damaged: the SHA-256 .* but it says .*Copy it again from where"):
        Zoo(changed(change, "old"))


@pytest.mark.parametrize("digest", ["none", "new"])
@pytest.mark.parametrize("fields", [{"together": 2}, {"views": 1}, {"seed": 3}, {"split": [1, 1, 1]}])
def test_other_networks_are_refused_whatever_the_digest(
    fields: dict[str, Any], digest: str, changed: Callable[..., Path]
) -> None:
    with pytest.raises(
        ValueError, match=r"shards.0 holds other networks than its config says .*one of them was changed"
    ):
        Zoo(changed(lambda index: index["config"].update(fields), digest))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i: i.pop("config"), "config is None, expected a mapping with name, make"),
        (lambda i: i["config"].pop("together"), "config.together is missing"),
        (lambda i: i["config"].update(together="4"), "config.together is '4', expected a whole number"),
        (
            lambda i: i["config"].update(split=[4, 1]),
            r"config.split is \[4, 1\], expected a list of 3: a whole number, ",
        ),
        (lambda i: i["config"].update(recipe=3), "config.recipe is 3, expected a mapping with epochs"),
        (lambda i: i["config"]["recipe"].pop("lr"), "config.recipe.lr is missing"),
        (lambda i: i["config"].update(colour="red"), "config.colour is not known, expected one of name"),
        (lambda i: i.pop("shards"), "shards is not a mapping from numbers"),
        (lambda i: i["shards"].update({"../1": {}}), "shards is not a mapping from numbers"),
        (lambda i: i["shards"]["0"].pop("sha256"), "shards.0 has no checksum and records"),
        (lambda i: i["shards"]["0"]["records"][0].pop("seed"), "shards.0.records.seed is missing"),
        (lambda i: i["shards"]["0"]["records"].pop(), "shards.0 holds other networks"),
    ],
)
def test_what_is_missing_or_of_another_type_is_named(
    change: Callable[[dict[str, Any]], object], message: str, changed: Callable[..., Path]
) -> None:
    with pytest.raises(ValueError, match=message):
        Zoo(changed(change))


@pytest.mark.parametrize("content", [b"[" * 200_000, b'{"a":' * 200_000, b"\xff\xfe", b"1" * 5_000, b""])
def test_what_is_no_json_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / INDEX).write_bytes(content)
    with pytest.raises(ValueError, match=r"zoo.json is not JSON .*Copy it again from where it came, or delete it"):
        Zoo(tmp_path)


def test_an_index_without_a_digest_opens_with_a_line_in_the_log(
    changed: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert len(Zoo(changed(lambda _: None, "none"))) == 8
    assert "zoo.json has no digest: whether it is damaged cannot be told" in caplog.text


def test_code_that_an_index_names_is_not_run(
    changed: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hostile.py").write_text("raise SystemExit('this code ran')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="Code that a file names is never imported"):
        Zoo(changed(lambda index: index["config"].update(make="hostile:Net")))
    assert "hostile" not in sys.modules


def test_a_class_of_the_callers_opens_its_zoo(digits: ZooConfig, tmp_path: Path) -> None:
    config = ZooConfig("own", Mine, {"width": 3}, recipe=Recipe(1, 256), together=1)
    zoo = build(config, 2, tmp_path)
    assert isinstance(zoo.module(1), Mine)
    with pytest.raises(ValueError, match=r"no architecture '.*:Mine' in this package.*make=Mine in Python"):
        Zoo(tmp_path)
    assert isinstance(Zoo(tmp_path, make=Mine).module(0), Mine)
    with pytest.raises(ValueError, match=r"are of class .*:Mine, got make=Identity"):
        Zoo(tmp_path, make=nn.Identity)
