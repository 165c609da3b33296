"""Every Python block of the documentation runs, in order, as a reader would paste them; so do the README's commands."""

import re
import shlex
from pathlib import Path

import fake_data
import pytest
from hydra import compose, initialize_config_dir

import align.train
import align.zoo.__main__
from align.configuration import config_folder, spelled_out
from align.zoo import Zoo
from align.zoo.composed import zoo_configs
from wsgraph import ops

ROOT = Path(__file__).parent.parent
PAGES = {
    path.name: path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in PAGES.items()}
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^python -m align\.(train|zoo) ([^#\n]*)", re.MULTILINE)
BLOCKS = {name: list(BLOCK.finditer(text)) for name, text in TEXTS.items() if BLOCK.search(text)}
COMMANDS = sorted({(name, *found) for name, text in TEXTS.items() for found in COMMAND.findall(text)})


def test_blocks_and_commands_are_found() -> None:
    assert {"README.md", "CONTRIBUTING.md", "conventions.md", "spec.md", "zoos.md"} <= set(BLOCKS)
    assert {"README.md", "training.md", "zoos.md", "results.md"} <= {name for name, _, _ in COMMANDS}


@pytest.mark.filterwarnings("ignore:.*assuming a plain chain of layers")  # which a page may say
@pytest.mark.parametrize("name", BLOCKS)
def test_python_blocks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # files that a block writes vanish
    monkeypatch.setitem(ops.HANDLERS, "_cdist_forward", ops.unknown)  # and the operator that one of them registers
    namespace = {"__name__": "__main__"}
    for block in BLOCKS[name]:
        above = TEXTS[name].count("\n", 0, block.start(1))  # so that a traceback shows the page's own line
        exec(compile("\n" * above + block[1], PAGES[name], "exec"), namespace)


@pytest.mark.parametrize(("page", "command", "words"), COMMANDS)
def test_commands_compose(page: str, command: str, words: str) -> None:
    """Every training and zoo command has only settings that exist."""
    parts = [word for word in shlex.split(words.replace("...", "")) if not word.startswith(("-", "folder="))]
    overrides = spelled_out(parts)
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        config = compose("config" if command == "train" else "zoo", overrides=overrides)
    if "arch" in config and config.arch.name != "own":  # whose class is the reader's
        assert zoo_configs(config, config.zoo if command == "train" else config)


NARROW = {"mlp": "arch.args.hidden=[8,8]", "vgg11": "arch.args.width=0.0625"}
FEW = {
    "train": [
        *("zoo.count=12", "zoo.workers=1", "optim.steps=2", "optim.pairs=2", "optim.images=4", "optim.validate=1"),
        *("eval.pairs=2", "eval.points=3", "eval.images=50", "eval.sinkhorn=1", "encoder.hidden=8", "encoder.output=8"),
    ],
    "zoo": ["count=12", "workers=1"],
}


@pytest.mark.parametrize(("name", "words"), COMMAND.findall(TEXTS["README.md"]))
def test_commands_of_the_readme_run(name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From no data and no networks to their table; sizes, and the data to fetch, are shrunk."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WSGRAPH_DATA", str(tmp_path))
    fake_data.write_idx(fake_data.shrink(monkeypatch, "fashion_mnist"), tmp_path / "fashion_mnist", compress=True)
    given = shlex.split(words)
    arch = next(word.removeprefix("+arch=") for word in given if word.startswith("+arch="))
    monkeypatch.setattr("sys.argv", ["align", *given, "data.epochs=1", "data.batch=256", NARROW[arch], *FEW[name]])
    {"train": align.train, "zoo": align.zoo.__main__}[name].main()
    if name == "train":
        (report,) = tmp_path.glob("outputs/*/report.html")
        assert "deep align" in report.read_text()
    assert {len(Zoo(folder, 12)) for folder in (tmp_path / "zoos").iterdir()} == {12}
