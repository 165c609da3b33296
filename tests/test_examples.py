"""Every example runs in its quick form, and leaves its picture."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_quick_example(path: Path, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    command = [sys.executable, str(path), "--quick", "--output", str(picture)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 120
