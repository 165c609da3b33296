import subprocess
import sys

import pytest

from wsgraph.lazy import attach

HEAVY = ("torch", "torch_geometric", "scipy", "networkx", "matplotlib", "sklearn", "lightning_fabric", "safetensors")


def imported(code: str) -> set[str]:
    """Top-level packages among the heavy ones that a new process has imported after running ``code``."""
    asks = f"import sys\n{code}\nprint(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", asks], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert imported("import wsgraph\ndir(wsgraph)\nwsgraph.__version__") == set()


@pytest.mark.parametrize("name", ["Spec", "Permutation", "trace", "Encoder", "draw", "augment"])
def test_names_bring_only_what_they_need(name: str) -> None:
    assert imported(f"from wsgraph import {name}") <= {"torch", "safetensors"}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of two modules, one of which says when it is imported."""
    folder = tmp_path / "lazily"
    folder.mkdir()
    (folder / "shapes.py").write_text("class Square:\n    pass\n")
    (folder / "helpers.py").write_text("loaded = True\n")
    (folder / "__init__.py").write_text(
        "from wsgraph.lazy import attach\n"
        "__getattr__, __dir__ = attach(__name__, {'Square': '.shapes', 'helpers': '.helpers'})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import lazily

    yield lazily
    for name in [name for name in sys.modules if name.split(".")[0] == "lazily"]:
        del sys.modules[name]


def test_a_name_is_imported_at_first_use_and_kept(package) -> None:
    assert "lazily.shapes" not in sys.modules
    square = package.Square
    assert square.__module__ == "lazily.shapes"
    assert vars(package)["Square"] is square


def test_the_name_of_a_module_gives_the_module(package) -> None:
    assert package.helpers.loaded
    assert package.helpers is sys.modules["lazily.helpers"]


def test_names_are_listed_before_they_are_imported(package) -> None:
    assert {"Square", "helpers"} <= set(dir(package))
    assert not any(name.startswith("lazily.") for name in sys.modules)


def test_other_names_do_not_exist(package) -> None:
    with pytest.raises(AttributeError, match="module 'lazily' has no attribute 'Circle'"):
        package.Circle  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Circle'"):
        from lazily import Circle  # noqa: F401


def test_a_missing_module_is_not_a_missing_attribute(package) -> None:
    find, _ = attach("lazily", {"Circle": ".circles"})
    with pytest.raises(ModuleNotFoundError, match=r"lazily\.circles"):
        find("Circle")
