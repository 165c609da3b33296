"""Damage of every kind to a sequence of bytes: what disks, copies and strangers do to files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

TOKENS = (
    b"{", b"}", b"[", b"]", b'"', b":", b",", b"null", b"true", b"NaN", b"-1", b"1e999", b"0", b"\x00", b"\xff" * 4,
    b"9" * 30, b'"__metadata__"', b'"digest"', b"\xf0\x9f\x92\xa5", b"\\u0000", b"../", b"os:system", b"\x80\x04",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 10**9, 10**30, 0.5, -0.0, float("inf"), float("nan"), "", "a", "os:system",
    "../x", "mlp", [], {}, [[]], [0, 0, 0], {"a": 1}, "\ud800",
)  # fmt: skip


def mutated(content: bytes, others: Sequence[bytes], draw: random.Random) -> bytes:
    """The content after one to four random changes; ``others`` are contents to take pieces from."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        content = draw.choice(CHANGES)(content, others, draw)
    return content


def flip(content: bytes, _: Sequence[bytes], draw: random.Random) -> bytes:
    changed = bytearray(content or b"\0")
    changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def overwrite(content: bytes, _: Sequence[bytes], draw: random.Random) -> bytes:
    at, token = draw.randrange(len(content) + 1), draw.choice(TOKENS)
    return content[:at] + token + content[at + len(token) :]


def insert(content: bytes, _: Sequence[bytes], draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.choice(TOKENS) * draw.choice((1, 1, 1, 2, 300)) + content[at:]


def cut(content: bytes, _: Sequence[bytes], draw: random.Random) -> bytes:
    first, last = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    return content[:first] + content[last:]


def truncate(content: bytes, _: Sequence[bytes], draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def splice(content: bytes, others: Sequence[bytes], draw: random.Random) -> bytes:
    other = draw.choice(others)
    return content[: draw.randrange(len(content) + 1)] + other[draw.randrange(len(other) + 1) :]


def change_value(content: bytes, _: Sequence[bytes], draw: random.Random) -> bytes:
    """Where the content is JSON, one of its values becomes another, vanishes, or gets a sibling."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return flip(content, (), draw)
    holder = value
    while isinstance(holder, dict | list) and holder:
        key = draw.choice(list(holder)) if isinstance(holder, dict) else draw.randrange(len(holder))
        if not (isinstance(holder[key], dict | list) and holder[key]) or draw.random() < 0.25:
            break
        holder = holder[key]
    else:
        return json.dumps(draw.choice(VALUES)).encode()
    action = draw.random()
    if action < 0.7:
        holder[key] = draw.choice(VALUES)
    elif action < 0.85:
        del holder[key]
    elif isinstance(holder, dict):
        holder[draw.choice(("own", "a", "", "7", "00"))] = draw.choice(VALUES)
    else:
        holder.append(draw.choice(VALUES))
    return json.dumps(value).encode()


CHANGES: tuple[Callable[[bytes, Sequence[bytes], random.Random], bytes], ...] = (
    flip, overwrite, insert, cut, truncate, splice, change_value, change_value, change_value,
)  # fmt: skip
