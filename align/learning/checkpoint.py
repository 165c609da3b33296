"""The state of a training run on disk: written atomically, read without running anybody's code."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import torch

from wsgraph.files import replacing

NAME = "checkpoint.pt"


def save_checkpoint(folder: str | os.PathLike[str], state: dict[str, Any]) -> bool:
    """Write ``state`` to the folder's checkpoint; a full disk is reported, and the last checkpoint stays.

    Returns:
        Whether it was written.
    """
    path = Path(folder) / NAME
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            torch.save(state, temporary)
    except (OSError, RuntimeError) as error:  # torch reports a failed write as RuntimeError
        kept = "the last one is kept" if path.exists() else "there is none yet"
        warnings.warn(f"no checkpoint at step {state['step']}: {error}; {kept}. Free some space.", stacklevel=2)
        return False
    return True


def load_checkpoint(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The folder's checkpoint, or ``None`` if there is none."""
    path = Path(folder) / NAME
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(f"{path} is not a checkpoint ({type(error).__name__}); delete it to start anew") from error
    return state
