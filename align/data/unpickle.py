"""Pickles of plain data and uint8 arrays, read without running anything that is written in them.

The python version of CIFAR-10 is pickled. A pickle is a program, and the usual reader runs whatever it names; this one
knows three names, all of numpy, and puts harmless stand-ins of its own in their place.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np


class _DType:
    """Stands in for ``numpy.dtype``: only unsigned bytes."""

    def __init__(self, code: Any = None, *_: Any) -> None:
        if code not in ("u1", b"u1", "uint8", b"uint8"):
            raise pickle.UnpicklingError(f"it holds an array of {code!r}, only 'u1' is allowed")

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like, which bytes do not have."""


class _Array:
    """Stands in for ``numpy.ndarray`` and the function that rebuilds one."""

    def __init__(self, *_: Any) -> None:
        self.value = np.zeros(0, dtype=np.uint8)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, raw = state
        whole = isinstance(raw, bytes) and all(type(n) is int and n >= 0 for n in shape)
        if not isinstance(dtype, _DType) or not whole or len(raw) != math.prod(shape):
            raise pickle.UnpicklingError("it holds an array whose shape, type and bytes do not agree")
        self.value = np.frombuffer(raw, dtype=np.uint8).reshape(shape, order="F" if fortran else "C")


_KNOWN = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which plain data does not need")
        return _KNOWN[module, name]


def unpickle(path: Path) -> Any:
    """The content of a pickle of dictionaries, lists, numbers, strings (as bytes) and uint8 arrays.

    Anything else, and a file cut short, is a ``ValueError``; nothing named in the file is ever called.
    """
    with path.open("rb") as file:
        try:
            raw = file.read()
            _check_sizes(raw)
            content = _Unpickler(io.BytesIO(raw), encoding="bytes").load()
        except Exception as error:  # a broken pickle can fail in any way at all
            raise ValueError(f"{path} is not a pickle of plain arrays: {error or type(error).__name__}.") from error
    if isinstance(content, dict):
        return {_text(key): _plain(value) for key, value in content.items()}
    return _plain(content)


def _check_sizes(raw: bytes) -> None:
    """Refuse sizes that are not there: a few bytes can announce gigabytes, which would be allocated first."""
    for opcode, argument, _ in pickletools.genops(raw):  # fails where something announced is missing
        if opcode.name.endswith("PUT") and argument is not None and argument > len(raw):
            raise pickle.UnpicklingError(f"it numbers its values up to {argument}, and has {len(raw)} bytes")


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, _Array) else value


def _text(key: Any) -> Any:
    """Keys as bytes, whichever Python wrote them."""
    return key.encode() if isinstance(key, str) else key
