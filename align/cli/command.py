"""Match, merge and compare trained networks that are on disk.

FILE is a .safetensors file, a state dict of torch.save (.pt, .pth, .bin, .ckpt) or a folder of Hugging Face.
A plain chain of layers is read off its tensors; for anything else name the class: --model package.module:Class.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from . import aligning, judging, looking, mass
from .options import PROGRAM, Report

EXAMPLES = """examples:
  wsalign inspect a.safetensors
  wsalign match a.safetensors b.safetensors -o aligned.safetensors
  wsalign merge a.safetensors b.safetensors -o merged.safetensors

exit codes: 0 done, 1 failed (the reason is on stderr), 2 the command line is wrong, 130 interrupted"""
FAILED, INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    args = _parser().parse_args(arguments)
    try:
        with _notes():
            report: Report = args.run(args)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; no file was left half written\n")
        return INTERRUPTED
    except Exception as error:
        if args.debug:
            raise
        sys.stderr.write(f"{PROGRAM} {args.command}: {_reason(error)}\n")
        return FAILED
    if args.json:
        sys.stdout.write(json.dumps(_finite(report.data), indent=2) + "\n")
    else:
        _show(report)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        PROGRAM, description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for family in (looking, aligning, judging, mass):
        family.add(commands)
    return parser


def _show(report: Report) -> None:
    from rich.console import Console

    console = Console(markup=False, highlight=False)  # brackets in a path are no markup
    for part in report.shown:
        console.print(part, soft_wrap=isinstance(part, str))


def _finite(value: Any) -> Any:
    """Plain data without what JSON cannot say: null in place of NaN and infinity."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _reason(error: Exception) -> str:
    """An error in words; those without any are given by their kind."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    known = isinstance(error, (ValueError, TypeError, KeyError, OSError, ImportError))
    return text if text and known else f"{type(error).__name__}: {text or 'no reason given'} (--debug shows where)"


@contextmanager
def _notes() -> Iterator[None]:
    """Inside, every warning is a line on stderr, once."""
    said = set()

    def note(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            sys.stderr.write(f"note: {message}\n")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", ResourceWarning)  # of Ray, about files of its own
        warnings.showwarning = note
        yield
