"""Keep bfloat16 matrix products from killing the process on processors that promise more than they may give.

Where ``/proc/cpuinfo`` lists ``amx_bf16``, oneDNN (which torch multiplies with on a CPU) computes bfloat16 products
with the AMX instructions. Some virtual machines and sandboxes list them and do not let programs run them: the first
product is then an illegal instruction, exit code 132. Neither the list gives that away nor the kernel, which
grants permission all the same; only a product tells, so a child process tries one. Its answer is kept in the cache
folder.

This module imports no torch: it runs whenever ``wsgraph`` is imported, also for a mere ``--help``.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .folder import cache_folder

VARIABLE = "ONEDNN_MAX_CPU_ISA"
"""The instructions that oneDNN may use at most; read once, at the first product of a process."""
WITHOUT_AMX = "AVX512_CORE_BF16"
"""The value that allows all that comes before AMX."""
UNLIMITED = "DEFAULT"
"""The value that changes nothing; it tells child processes that the question is answered."""
OLD_VARIABLE = "DNNL_MAX_CPU_ISA"
"""What oneDNN was called before; it still reads this one if the other is not set."""
CPUINFO = Path("/proc/cpuinfo")
PRODUCT = """
import resource, torch
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no core file if it crashes
x = torch.ones(128, 128, dtype=torch.bfloat16)
assert (x @ x)[0, 0] == 128
"""


def limit_instructions() -> None:
    """Set :data:`VARIABLE` where AMX is listed, to what works; a choice of the user's own stays."""
    if VARIABLE in os.environ or OLD_VARIABLE in os.environ:
        return
    processor = _processor()
    if "amx_bf16" in processor.split():
        os.environ.setdefault(VARIABLE, WITHOUT_AMX if _known_to_crash(processor) else UNLIMITED)


def _processor() -> str:
    """Name and abilities of the first processor; empty where the system does not tell."""
    wanted = ("model name", "flags")
    found = []
    with suppress(OSError), CPUINFO.open() as lines:
        for line in lines:
            if not line.strip():
                break  # the others are alike, and there may be hundreds
            if line.startswith(wanted):
                found.append(line)
    return "".join(found)


def _known_to_crash(processor: str) -> bool:
    """The answer in the cache folder; the first time, and where none can be kept, that of a child process."""
    answers = {"crashes": True, "works": False}
    path = _path(processor)
    with suppress(OSError):
        if path is not None and (kept := path.read_text()) in answers:
            return answers[kept]
    crashes = product_crashes()
    if path is not None and crashes is not None:
        _keep(path, "crashes" if crashes else "works")
    return bool(crashes)


def _path(processor: str) -> Path | None:
    """Where the answer is kept: a name for processor, kernel and torch, as a cache folder may serve many machines."""
    try:
        what = "\n".join([processor, os.uname().release, version("torch")])
        return cache_folder() / "processor" / f"amx-{hashlib.sha256(what.encode()).hexdigest()[:16]}"
    except (PackageNotFoundError, RuntimeError):  # no torch that pip knows of, or no home folder
        return None


def _keep(path: Path, answer: str) -> None:
    """Write a file whole or not at all: others may be reading it. Without a place to write, the next one asks anew."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(answer)
        part.replace(path)


def product_crashes() -> bool | None:
    """Whether a bfloat16 product kills the process that computes it; ``None`` if that could not be tried."""
    try:
        child = subprocess.run([sys.executable, "-c", PRODUCT], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError:
        return None
    if child.returncode in (-signal.SIGILL, 128 + signal.SIGILL):  # the latter if a shell script starts Python
        return True
    return None if child.returncode else False
