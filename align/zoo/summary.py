"""Number and quality of a zoo's networks, for people."""

from __future__ import annotations

from statistics import mean, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .zoo import Zoo

COLUMNS = ("zoo", "networks", "train / val / test", "train loss", "test loss", "test accuracy")


def cells(zoo: Zoo) -> list[str]:
    """A row of a table with :data:`COLUMNS`; deviations are those of networks."""
    records = list(zoo.records.values())
    sizes = " / ".join(str(len(zoo.members(part))) for part in ("train", "val", "test"))
    losses = [mean(values) for values in zip(*((r.train_loss, r.test_loss) for r in records), strict=True)]
    right = [r.test_accuracy for r in records if r.test_accuracy is not None]
    spread = f" ± {stdev(right):.1%}" if len(right) > 1 else ""
    accuracy = f"{mean(right):.1%}{spread}" if right else "-"
    return [zoo.folder.name, str(len(zoo)), sizes, *(f"{x:.4g}" for x in losses), accuracy]
