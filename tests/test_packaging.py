"""What an installed wheel holds, and that the pins cover what it asks for."""

import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    # The build backend is installed already, so nothing is fetched.
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder, ROOT], check=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_wheel_contents(wheel: zipfile.ZipFile) -> None:
    files = set(wheel.namelist())
    assert files >= {f"align/pretrained/{name}" for name in ("config.json", "model.safetensors", "README.md")}
    sources = {
        str(path.relative_to(ROOT)) for package in ("wsgraph", "align") for path in (ROOT / package).rglob("*.py")
    }
    configs = {f"align/{path.relative_to(ROOT)}" for path in (ROOT / "configs").rglob("*.yaml")}
    assert "align/configs/config.yaml" in configs
    assert sources | configs | {"wsgraph/py.typed", "align/py.typed"} <= files
    assert {name.split("/")[0] for name in files} == {"wsgraph", "align", f"wsgraph-{PROJECT['version']}.dist-info"}


def test_wheel_version(wheel: zipfile.ZipFile) -> None:
    built = wheel.read(f"wsgraph-{PROJECT['version']}.dist-info/METADATA").decode()
    assert f"\nVersion: {metadata.version('wsgraph')}\n" in built


def test_an_installed_wheel_finds_its_configs(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    command = [sys.executable, "-m", "align.train", "+arch=mlp", "--cfg", "job"]
    done = subprocess.run(command, cwd=tmp_path / "site", capture_output=True, text=True, check=True)
    assert "make: mlp" in done.stdout
    where = [sys.executable, "-c", "from align.configuration import config_folder; print(config_folder())"]
    folder = subprocess.run(where, cwd=tmp_path / "site", capture_output=True, text=True, check=True).stdout.strip()
    assert Path(folder) == tmp_path / "site" / "align" / "configs"


def test_constraints_pin_every_dependency() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pins = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}
    extras = [r for group in PROJECT["optional-dependencies"].values() for r in group]
    for requirement in map(Requirement, PROJECT["dependencies"] + extras):
        pin = pins.get(canonicalize_name(requirement.name), "nothing")
        assert pin in requirement.specifier, f"constraints.txt pins {pin} for {requirement}; run `make lock`"
