"""Losses and barriers of a training run as TensorBoard logs, and in Weights & Biases if asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any


class Logs:
    """Writes to ``tensorboard/`` in the run folder while it is open.

    Args:
        folder: The run folder.
        wandb: Send the same to Weights & Biases.
        enabled: Whether to log at all; of several processes, one does.
    """

    def __init__(self, folder: Path, wandb: bool = False, enabled: bool = True) -> None:
        self.folder, self.enabled = folder, enabled
        self.wandb = _wandb() if wandb and enabled else None

    def __enter__(self) -> Logs:
        if self.enabled:
            from torch.utils.tensorboard import SummaryWriter

            if self.wandb is not None:
                self.wandb.init(project="wsgraph", name=self.folder.name, sync_tensorboard=True)
            self.writer = SummaryWriter(str(self.folder / "tensorboard"))
        return self

    def report(self, step: int, values: Mapping[str, float]) -> None:
        """Log the numbers of a step."""
        if self.enabled:
            for name, value in values.items():
                self.writer.add_scalar(name, value, step)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.enabled:
            self.writer.close()
        if self.wandb is not None:
            self.wandb.finish(exit_code=int(error is not None))


def _wandb() -> Any:
    try:
        import wandb  # type: ignore[import-not-found]
    except ImportError as error:
        raise ImportError("wandb=true needs Weights & Biases: pip install wandb") from error
    return wandb
