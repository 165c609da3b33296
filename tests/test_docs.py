"""Every Python block of the documentation runs, in order, as a reader would paste them."""

import re
from pathlib import Path

import pytest

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
