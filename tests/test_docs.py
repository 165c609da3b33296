"""Every Python block of the documentation runs, in order, as a reader would paste them; so do the README's commands."""

import re
import shlex
from pathlib import Path

import fake_data
import pytest
from hydra import compose, initialize_config_dir

import align.train
import align.zoo.__main__
from align.configuration import config_folder
from align.zoo import Zoo
from align.zoo.composed import zoo_configs
from wsgraph import ops

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # files that a block writes vanish
    monkeypatch.setitem(ops.HANDLERS, "cumsum", ops.unknown)  # and so does the operator that one of them registers
    text = page.read_text(encoding="utf-8")
    namespace = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        above = text.count("\n", 0, block.start(1))  # so that a traceback shows the page's own line
        exec(compile("\n" * above + block[1], page, "exec"), namespace)


COMMAND = re.compile(r"^python -m align\.(train|zoo) ([^#\n]*)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_compose(page: Path) -> None:
    """Every training and zoo command has only settings that exist."""
    for name, words in COMMAND.findall(page.read_text(encoding="utf-8")):
        overrides = [word for word in shlex.split(words.replace("...", "")) if not word.startswith(("-", "folder="))]
        with initialize_config_dir(str(config_folder()), version_base="1.3"):
            config = compose("config" if name == "train" else "zoo", overrides=overrides)
        if "arch" in config:
            assert zoo_configs(config, config.zoo if name == "train" else config)


NARROW = {"mlp": "arch.args.hidden=[8,8]", "vgg11": "arch.args.width=0.0625"}
FEW = {
    "train": [
        *("zoo.count=12", "zoo.workers=1", "optim.steps=2", "optim.pairs=2", "optim.images=4", "optim.validate=1"),
        *("eval.pairs=2", "eval.points=3", "eval.images=50", "eval.sinkhorn=1", "encoder.hidden=8", "encoder.output=8"),
    ],
    "zoo": ["count=12", "workers=1"],
}


@pytest.mark.parametrize(("name", "words"), COMMAND.findall((ROOT / "README.md").read_text(encoding="utf-8")))
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
    assert {len(Zoo(folder)) for folder in (tmp_path / "zoos").iterdir()} == {16 if arch == "mlp" else 12}
