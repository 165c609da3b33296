"""Every example runs in its quick form, and leaves its picture."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = {path.stem: path for path in sorted((Path(__file__).parent.parent / "examples").glob("*.py"))}


@pytest.mark.parametrize("line", [*EXAMPLES, "align_inrs --signal digit"])
def test_quick_example(line: str, tmp_path: Path) -> None:
    name, *options = line.split()
    picture = tmp_path / "new" / f"{name}.png"
    command = [sys.executable, str(EXAMPLES[name]), "--quick", "--output", str(picture.parent), *options]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert f"picture: {picture}" in done.stdout
    assert picture.stat().st_size > 10_000
    assert picture.with_suffix(".svg").stat().st_size > 10_000


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_short(name: str) -> None:
    assert len(EXAMPLES[name].read_text().splitlines()) < 120
