"""What it costs to import ``align``, and to ask its commands for help: no torch until something needs it."""

import subprocess
import sys
import time

import pytest

import align
import wsgraph

HEAVY = (
    *("torch", "torch_geometric", "scipy", "networkx", "matplotlib", "sklearn", "lightning_fabric", "safetensors"),
    *("hydra", "huggingface_hub", "rich"),
)


def imported(code: str) -> set[str]:
    """Heavy packages that a new process has imported when it ends."""
    report = f"import atexit, sys\natexit.register(lambda: print('|', *[m for m in {HEAVY} if m in sys.modules]))\n"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", report + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("|")[2].split())


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert imported("import align\ndir(align)\nalign.__version__") == set()


def test_matching_imports_no_more_than_it_needs() -> None:
    """And modules are found, as ever, without an import of their own."""
    code = "import align\nassert align.methods.METHODS\nalign.match, align.judging, align.data, align.zoo"
    assert not imported(code) & {"hydra", "lightning_fabric", "matplotlib", "scipy", "sklearn"}


def test_import_takes_hardly_longer_than_that_of_torch() -> None:
    def seconds(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
        return time.perf_counter() - start

    assert min(seconds("import align") for _ in range(2)) <= 1.3 * seconds("import torch")


def test_both_packages_have_one_version() -> None:
    assert align.__version__ == wsgraph.__version__


@pytest.mark.parametrize("command", ["train", "zoo", "data", "benchmark", "demo", "__main__"])
def test_help_comes_without_torch(command: str) -> None:
    module = f"align.{command}"
    code = f"import runpy, sys\nsys.argv = ['{module}', '--help']\nrunpy.run_module('{module}', None, '__main__')"
    assert "torch" not in imported(code)
