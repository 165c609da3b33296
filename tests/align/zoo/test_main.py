"""The command: builds, repairs, enlarges, and explains itself."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from align.configuration import choices
from align.data import FetchError
from align.zoo import BuildError, DamagedShardError, Zoo, ZooConfig, build
from align.zoo.__main__ import main
from align.zoo.architectures import own_class
from align.zoo.shard import file_name

Files = Callable[[Path], dict[str, bytes]]
TINY = ("arch.args.hidden=[4]", "arch.laptop.recipe.epochs=1", "arch.together=2", "workers=1")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``python -m align.zoo`` with these words."""

    def run(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["align.zoo", *words])
        main()

    return run


def test_without_an_architecture_the_choices_are_listed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "align.zoo"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"no architecture chosen; pass +arch=<one of {', '.join(choices('arch'))}>\n"
    assert not list(tmp_path.iterdir())


def test_a_list_of_architectures_is_refused(command: Callable[..., None]) -> None:
    with pytest.raises(SystemExit, match=r"\+arch=\[mlp,cnn\] would merge them into one"):
        command("+arch=[mlp,cnn]")


def test_a_tiny_zoo(command: Callable[..., None], cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command("+arch=mlp", "count=3", *TINY)
    (folder,) = (cache / "zoos").iterdir()
    zoo = Zoo(folder)
    assert len(zoo) == 4
    assert zoo.tensors(3)["1.weight"].shape == (4, 64)
    output = capsys.readouterr().out
    assert "accuracy" in output
    assert output.splitlines()[-1] == str(folder)


def test_the_command_of_the_message_repairs(
    waves: ZooConfig, tmp_path: Path, files: Files, command: Callable[..., None]
) -> None:
    zoo = build(waves, 16, tmp_path / "my zoo")
    before = files(zoo.folder)
    (zoo.folder / file_name(1)).write_bytes(before[file_name(1)][:-7])
    (zoo.folder / file_name(2)).write_bytes(before[file_name(0)])
    (zoo.folder / file_name(3)).unlink()
    with pytest.raises(DamagedShardError) as caught:
        zoo.tensors(4)
    words = shlex.split(str(caught.value).partition("Rebuild it with: ")[2])
    assert words[:3] == ["python", "-m", "align.zoo"]
    command(*words[3:], "workers=1")
    assert files(zoo.folder) == before


def test_a_folder_and_a_count_enlarge(waves: ZooConfig, tmp_path: Path, command: Callable[..., None]) -> None:
    zoo = build(waves, 4, tmp_path / "zoo")
    command(f"folder={zoo.folder}", "count=7", "workers=1")
    assert len(Zoo(zoo.folder)) == 8


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyboardInterrupt(), "interrupted; the same command goes on"),
        (BuildError("a worker process died"), "a worker process died"),
        (FetchError("no network"), "no network"),
    ],
)
def test_what_ends_a_build_is_told(
    error: BaseException, message: str, command: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("align.zoo.composed.build_zoos", fail)
    with pytest.raises(SystemExit, match=message):
        command("+arch=mlp")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("folder=nowhere",), "no zoo.json in .*nowhere: not a zoo"),
        (("+arch=mlp", "engine=spark"), "no engine 'spark'"),
        (("+arch=mlp_diverse", "folder=here"), "mlp_diverse is 3 zoos"),
        (("+arch=mlp", "arch.make=gpt"), "no architecture 'gpt'"),
        (("+arch=mlp", "count=many"), "count is 'many', expected a whole number of at least 1"),
        (("+arch=mpl",), "no such arch; did you mean"),
    ],
)
def test_errors_are_one_line(words: tuple[str, ...], message: str, command: Callable[..., None]) -> None:
    with pytest.raises(SystemExit, match=message):
        command(*words)


def test_a_zoo_of_ones_own_class_is_repaired_with_the_class(
    digits: ZooConfig, tmp_path: Path, command: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ownnets.py").write_text(
        "from torch import nn\n"
        "class Mine(nn.Sequential):\n"
        "    def __init__(self):\n"
        "        super().__init__(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    zoo = build(replace(digits, make=own_class("ownnets:Mine"), args={}, together=1), 1, tmp_path / "zoo")
    (zoo.folder / file_name(0)).unlink()
    with pytest.raises(SystemExit, match="no architecture 'ownnets:Mine' in this package"):
        command(f"folder={zoo.folder}")
    command(f"folder={zoo.folder}", "+arch.make=ownnets:Mine")
    assert Zoo(zoo.folder, make=zoo.config.own).sound_shards() == [0]
