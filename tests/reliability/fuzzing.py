"""Readers against damaged and hostile files: each content is read or refused with a message, never anything else.

Contents that get an answer of a new kind are changed further, and small ones are kept in ``corpus/``, so that a search
reaches beyond the first check.
"""

from __future__ import annotations

import hashlib
import random
import re
import signal
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .mutation import mutated
from .targets import REFUSALS, TARGETS, Target

CORPUS = Path(__file__).parent / "corpus"
KEPT, LARGEST = 16, 3_000
"""Files of the corpus per reader, and bytes of the largest."""
PATIENCE = 20
"""Seconds after which a reader is taken for stuck."""


@dataclass
class Found:
    """What a search has seen.

    Attributes:
        inputs: Contents that were tried.
        read: Of which so many could be read.
        seconds: Of the processor.
        answers: Kinds of answers.
        failures: Tracebacks of what is neither read nor refused.
    """

    inputs: int = 0
    read: int = 0
    seconds: float = 0.0
    answers: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)


def answer(target: Target, content: bytes) -> str:
    """The kind of answer: where in the code it was given; raises what is no refusal."""
    signal.alarm(PATIENCE)
    try:
        target.read(content)
    except REFUSALS as error:
        if not str(error):
            raise AssertionError("a refusal without a message") from error
        frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
        return " ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
    finally:
        signal.alarm(0)
    return "read"


def corpus_of(name: str) -> list[Path]:
    """The kept contents for a reader."""
    return sorted((CORPUS / folder_name(name)).glob("*"))


def folder_name(name: str) -> str:
    return re.sub(r"\W+", "-", name).lower()


def replay(name: str) -> Iterator[tuple[Path, str]]:
    """The answers to all kept contents."""
    target = TARGETS[name]()
    for path in corpus_of(name):
        yield path, answer(target, path.read_bytes())


def fuzz(name: str, inputs: int, seconds: float, seed: int) -> Found:
    """Try so many contents, or for so long."""
    target, draw, found = TARGETS[name](), random.Random(f"{name} {seed}"), Found()
    pool = [*target.seeds, *(path.read_bytes() for path in corpus_of(name))]
    found.answers = {answer(target, content) for content in pool}
    start = time.process_time()
    while found.inputs < inputs and found.seconds < seconds:
        found.seconds = time.process_time() - start
        content = mutated(draw.choice(draw.choice((target.seeds, pool))), target.seeds, draw)
        if target.seal is not None and draw.random() < 0.5:
            content = target.seal(content)
        found.inputs += 1
        try:
            kind = answer(target, content)
        except Exception:
            found.failures.append(traceback.format_exc(limit=-3))
            _keep(name, content, "failure")
            if len(found.failures) == 3:
                break
            continue
        found.read += kind == "read"
        if kind not in found.answers:
            found.answers.add(kind)
            if len(content) <= LARGEST:
                pool.append(content)
                if len(corpus_of(name)) < KEPT:
                    _keep(name, content, "input")
    return found


def _keep(name: str, content: bytes, kind: str) -> None:
    folder = CORPUS / folder_name(name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{kind}-{hashlib.sha256(content).hexdigest()[:12]}").write_bytes(content)
