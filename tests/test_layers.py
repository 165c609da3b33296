"""The house as CONTRIBUTING.md draws it: which packages may import which, without cycles, in files one can read."""

import ast
import importlib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
LINES, ROOT_FILES = 350, 15


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for package in ("align", "wsgraph") for path in sorted((ROOT / package).rglob("*.py"))}
PACKAGES = [name for name, path in FILES.items() if path.name == "__init__.py"]


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports anywhere below ``node``, but for those only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from (found for other in child.orelse for found in statements(ast.Module([other], [])))
        else:
            yield from statements(child)


def imports(module: str, tree: ast.AST, is_package: bool) -> set[str]:
    """Our own modules that a module imports by name; packages that Python enters on the way do not count."""
    found = set()
    for statement in statements(tree):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
            continue
        home = module.split(".") if is_package else module.split(".")[:-1]
        above = home[: len(home) - statement.level + 1] if statement.level else []
        source = ".".join([*above, *([statement.module] if statement.module else [])])
        names = {f"{source}.{alias.name}" for alias in statement.names}
        found |= {name if name in FILES else source for name in names}  # a submodule, or what a module holds
    return {name for name in found if name in FILES} - {module}


IMPORTS = {name: imports(name, ast.parse(path.read_text()), path.name == "__init__.py") for name, path in FILES.items()}


def folder_of(module: str) -> str:
    """The folder below ``align/`` that a module is in; empty for ``align/`` itself and for ``wsgraph``."""
    package, _, rest = module.partition(".")
    folder = f"{package}.{rest.split('.')[0]}"
    return folder if package == "align" and folder in PACKAGES else ""


def offenders(importer: str, imported: str) -> list[str]:
    """Modules in one package that import from another."""
    return [
        f"{name} imports {other}"
        for name, others in IMPORTS.items()
        for other in others
        if f"{name}.".startswith(f"{importer}.") and f"{other}.".startswith(f"{imported}.")
    ]


def assert_acyclic(graph: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"imports go in a circle: {' <- '.join(error.args[1])}")


def test_imports_are_found() -> None:
    source = (
        "import align.plots\nfrom ..data import load, catalogue\nif TYPE_CHECKING:\n    from ..many import Universe\n"
        "else:\n    from .config import ZooConfig\ndef f():\n    from .. import progress\n"
    )
    found = imports("align.zoo.task", ast.parse(source), is_package=False)
    assert found == {"align.plots", "align.data", "align.data.catalogue", "align.zoo.config", "align.progress"}
    assert imports("align.zoo", ast.parse("from .zoo import Zoo\n"), is_package=True) == {"align.zoo.zoo"}
    assert len(FILES) == sum(len(list((ROOT / package).rglob("*.py"))) for package in ("align", "wsgraph"))


@pytest.mark.parametrize(("importer", "imported"), [("wsgraph", "align"), ("align.data", "align.zoo")])
def test_directions(importer: str, imported: str) -> None:
    assert offenders(importer, imported) == []
    assert offenders(imported, importer) != []


def test_no_cycles_between_modules() -> None:
    assert_acyclic(IMPORTS)


def test_no_cycles_between_the_folders_of_align() -> None:
    graph: dict[str, set[str]] = {}
    for name, others in IMPORTS.items():
        graph.setdefault(folder_of(name), set()).update(folder_of(other) for other in others)
    assert_acyclic({folder: others - {folder, ""} for folder, others in graph.items() if folder})


def test_files_can_be_read_in_one_go() -> None:
    lengths = {name: path.read_text().count("\n") for name, path in FILES.items()}
    assert {name: count for name, count in lengths.items() if count > LINES} == {}


def test_the_root_of_align_shows_its_architecture() -> None:
    files = [path.name for path in (ROOT / "align").iterdir() if path.is_file()]
    assert len(files) <= ROOT_FILES, sorted(files)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_hides_a_submodule(package: str) -> None:
    """``import package.name as m`` gives the module, not a function of its name that the package exports."""
    exported = {name: getattr(importlib.import_module(package), name) for name in dir(importlib.import_module(package))}
    exported |= {name: getattr(importlib.import_module(package), name) for name in exported.get("__all__", ())}
    submodules = [name for name in FILES if name.rpartition(".")[0] == package and not name.endswith("__main__")]
    for module in submodules:
        name = module.rpartition(".")[2]
        seen = exported.get(name, importlib.import_module(module))
        assert isinstance(seen, ModuleType), f"{seen!r} hides the module {module}"
        assert getattr(importlib.import_module(package), name) is importlib.import_module(module)


def test_tests_mirror_the_packages() -> None:
    for package in ("align", "wsgraph"):
        for path in (ROOT / "tests" / package).rglob("test_*.py"):
            folder = path.parent.relative_to(ROOT / "tests")
            assert (ROOT / folder).is_dir(), f"{path} tests no folder of {package}"
