"""The state of a training run on disk: written atomically, with a digest, read without running anybody's code."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import warnings
from pathlib import Path
from typing import Any

import torch

from wsgraph.files import replacing

NAME = "checkpoint.pt"
MARK = b"sha256:"
"""Stands before the digest, the last 64 bytes of the file; it is of all that comes before the mark."""

log = logging.getLogger(__name__)


def save_checkpoint(folder: str | os.PathLike[str], state: dict[str, Any]) -> bool:
    """Write ``state`` to the folder's checkpoint; a full disk is reported, and the last checkpoint stays.

    Returns:
        Whether it was written.
    """
    path = Path(folder) / NAME
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getvalue()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(content + MARK + _digest(content))
    except OSError as error:
        kept = "the last one is kept" if path.exists() else "there is none yet"
        warnings.warn(f"no checkpoint at step {state['step']}: {error}; {kept}. Free some space.", stacklevel=2)
        return False
    return True


def load_checkpoint(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The folder's checkpoint, or ``None`` if there is none; a damaged one is a ``ValueError``."""
    path = Path(folder) / NAME
    if not path.exists():
        return None
    content, mark, digest = path.read_bytes().rpartition(MARK)
    if len(digest) != 64:
        content, mark = content + mark + digest, b""
    if not mark:
        log.info("%s has no digest: whether it is damaged cannot be told", path)
    elif digest != _digest(content):
        raise ValueError(f"{path} is damaged: its digest is not that of its content; delete it to start anew")
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(f"{path} is not a checkpoint ({type(error).__name__}); delete it to start anew") from error
    if not isinstance(state, dict):
        raise ValueError(f"{path} is not a checkpoint (it holds {type(state).__name__}); delete it to start anew")
    return state


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
