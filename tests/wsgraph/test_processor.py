"""Processors that list AMX and do not have it: faked, as few machines are like that."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import wsgraph
from wsgraph import processor
from wsgraph.processor import VARIABLE, limit_instructions, product_crashes

CRASH = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


class Machine:
    """A processor that lists AMX, with a product that crashes or not; counts the products that are tried."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patch, self.cpuinfo = monkeypatch, tmp_path / "cpuinfo"
        self.answer: bool | None = True
        self.tried = 0
        self.lists("avx512_bf16 amx_bf16 amx_tile")
        monkeypatch.setattr(processor, "CPUINFO", self.cpuinfo)
        monkeypatch.setattr(processor, "product_crashes", self.crashes)
        monkeypatch.setenv("WSGRAPH_DATA", str(tmp_path / "cache"))

    def lists(self, flags: str, name: str = "Xeon") -> None:
        one = f"processor\t: 0\nmodel name\t: {name}\ncpu MHz\t\t: {os.urandom(2).hex()}\nflags\t\t: fpu {flags}\n\n"
        self.cpuinfo.write_text(one * 2)

    def crashes(self) -> bool | None:
        self.tried += 1
        return self.answer

    def chosen(self) -> str | None:
        """What a new process would be limited to."""
        self.patch.setenv(VARIABLE, "")  # remembered by monkeypatch, which restores it
        self.patch.delenv(VARIABLE)
        limit_instructions()
        return os.environ.get(VARIABLE)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_without_amx_nothing_is_tried(machine: Machine) -> None:
    machine.lists("avx512_bf16 amx_bf16x")
    assert machine.chosen() is None
    machine.cpuinfo.unlink()  # no Linux
    assert machine.chosen() is None
    assert machine.tried == 0


def test_where_products_crash_amx_is_left_out(machine: Machine) -> None:
    assert machine.chosen() == "AVX512_CORE_BF16"


def test_where_they_work_nothing_changes(machine: Machine) -> None:
    machine.answer = False
    assert machine.chosen() == "DEFAULT"
    limit_instructions()  # as a child process would
    assert machine.tried == 1


@pytest.mark.parametrize("variable", [VARIABLE, "DNNL_MAX_CPU_ISA"])
def test_what_the_user_chose_stays(machine: Machine, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv(variable, "AVX2")
    limit_instructions()
    assert machine.tried == 0
    assert os.environ[variable] == "AVX2"


@pytest.mark.parametrize("answer", [True, False])
def test_the_answer_is_kept_for_this_processor_and_torch(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, answer: bool
) -> None:
    machine.answer = answer
    first = machine.chosen()
    machine.lists("avx512_bf16 amx_bf16 amx_tile")  # runs at another frequency now
    assert machine.chosen() == first
    assert machine.tried == 1
    machine.lists("avx512_bf16 amx_bf16 amx_tile", name="Xeon 2")
    machine.chosen()
    assert machine.tried == 2
    monkeypatch.setattr(processor, "version", lambda package: "99.0")
    machine.chosen()
    assert machine.tried == 3


def test_without_a_place_to_keep_it_the_answer_is_found_anew(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert [machine.chosen(), machine.chosen()] == ["AVX512_CORE_BF16"] * 2
    assert machine.tried == 2


def test_a_spoilt_answer_and_none_are_not_believed(machine: Machine, tmp_path: Path) -> None:
    machine.answer = None
    assert machine.chosen() == "DEFAULT"
    assert not (tmp_path / "cache").exists()
    machine.answer = True
    machine.chosen()
    (kept,) = (tmp_path / "cache" / "processor").iterdir()
    kept.write_text("wor")
    assert machine.chosen() == "AVX512_CORE_BF16"
    assert machine.tried == 3
    assert kept.read_text() == "crashes"


def test_importing_the_package_is_enough(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)
    importlib.reload(wsgraph)
    assert os.environ[VARIABLE] == "AVX512_CORE_BF16"


def test_a_crash_is_that_of_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    assert product_crashes() is False, "this machine's own product"
    monkeypatch.setattr(processor, "PRODUCT", CRASH)
    assert product_crashes() is True
    monkeypatch.setattr(processor, "PRODUCT", "import no_such_torch")
    assert product_crashes() is None
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert product_crashes() is None


def test_torch_is_not_imported() -> None:
    code = (
        "import sys, types; package = sys.modules['wsgraph'] = types.ModuleType('wsgraph')\n"
        f"package.__path__ = [{str(Path(processor.__file__).parent)!r}]\n"
        "import wsgraph.processor; wsgraph.processor.limit_instructions(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
