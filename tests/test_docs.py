"""Every Python block of the documentation runs, in order, as a reader would paste them."""

import re
import shlex
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from align.configuration import config_folder
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
    """Every training and zoo command has only settings that exist; that such commands run is tested elsewhere."""
    for name, words in COMMAND.findall(page.read_text(encoding="utf-8")):
        overrides = [word for word in shlex.split(words.replace("...", "")) if not word.startswith(("-", "folder="))]
        with initialize_config_dir(str(config_folder()), version_base="1.3"):
            config = compose("config" if name == "train" else "zoo", overrides=overrides)
        if "arch" in config:
            assert zoo_configs(config, config.zoo if name == "train" else config)
