import ast
import importlib
import pkgutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

import wsgraph

PUBLIC = [
    "Axis", "Encoder", "EncoderConfig", "Group", "Param", "Permutation", "Spec", "WeightGraph",
    "augment", "draw", "testing", "to_graph", "trace",
]  # fmt: skip


def test_public_names_are_pinned():
    assert sorted(wsgraph.__all__) == PUBLIC


def test_every_public_name_exists_and_is_documented():
    assert [name for name in wsgraph.__all__ if not getattr(wsgraph, name).__doc__] == []


def test_type_checkers_see_the_names_that_are_attached():
    """What the package says to them and what it does at run time are two lists."""
    tree = ast.parse(Path(wsgraph.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    told = {alias.asname: f".{node.module or alias.name}" for node in imports for alias in node.names if alias.asname}
    (attached,) = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    assert told == ast.literal_eval(attached)
    assert set(told) == {*PUBLIC, "nn", "ops", "__version__"}


@pytest.mark.parametrize("package", ["wsgraph", "wsgraph.nn", "wsgraph.ops"])
def test_no_name_of_a_package_hides_a_module(package):
    home = importlib.import_module(package)
    for name in getattr(home, "__all__", ()):
        getattr(home, name)
    for module in pkgutil.iter_modules(home.__path__):
        importlib.import_module(f"{package}.{module.name}")
        assert isinstance(getattr(home, module.name), ModuleType), f"{package}.{module.name} is no module"


def test_the_version_is_that_of_the_distribution():
    assert wsgraph.__version__ == metadata.version("wsgraph")


def test_a_checkout_that_is_not_installed_has_a_version():
    root = Path(wsgraph.__file__).parent.parent
    code = f"import sys; sys.path.insert(0, {str(root)!r}); import wsgraph; print(wsgraph.__version__)"
    bare = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert bare.stdout.strip() == "0+unknown"
