"""The table of a run: the learned aligner beside the classic methods, on held-out networks."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from rich.table import Table
from torch import Tensor, nn

from ..alignment import Alignment
from ..deep_align import DeepAlign
from ..matching import match
from ..methods.registry import methods_of
from ..progress import progress
from ..zoo import Zoo
from .barrier import Barrier
from .evaluation import line_barrier, pairs_of

COLUMNS = ("method", "barrier", "AUC", "accuracy half way")
"""Of a table of results."""


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Attributes:
        label: For people.
        name: As in :func:`align.match`.
        options: Its arguments.
        data: What it sees: nothing, ``"noise"``, ``"pictures"``, or ``"some"`` or ``"all"`` samples that the networks
            learned from.
    """

    label: str
    name: str
    options: dict[str, Any]
    data: str | None = None


def methods(aligner: DeepAlign, whole: bool, sinkhorn: int, scratch: int) -> list[Method]:
    """What is compared. Methods that minimise the task's loss get samples; activation matching also gets noise."""
    learned = {"aligner": aligner}
    found = [
        Method("not aligned", "identity", {}),
        Method("weight matching", "weight_matching", {}),
        Method("covariance matching", "covariance_matching", {}),
        Method("activation matching", "activation_matching", {}, "some"),
        *([Method("activation matching, all samples", "activation_matching", {}, "all")] if whole else []),
        Method("activation matching on noise", "activation_matching", {}, "noise"),
        Method("deep align", "deep_align", learned),
    ]
    if sinkhorn:
        options = {**learned, "iterations": sinkhorn}
        found.append(Method(f"deep align + {sinkhorn} sinkhorn", "deep_align+sinkhorn", options, "some"))
    if scratch:
        found.append(Method(f"sinkhorn {scratch}", "sinkhorn", {"iterations": scratch}, "some"))
    return found


def compare(
    aligner: DeepAlign,
    zoo: Zoo,
    pairs: int = 24,
    points: int = 25,
    samples: int | None = 5_000,
    images: int = 5_000,
    whole: bool = False,
    sinkhorn: int = 25,
    scratch: int = 0,
) -> dict[str, Barrier]:
    """Barriers of every method between test networks of a zoo, on samples that no network learned from.

    Args:
        aligner: The learned aligner.
        zoo: The networks; its test part is used.
        pairs: Pairs of networks.
        points: On the line.
        samples: For the loss, at most.
        images: Samples for activation matching and Sinkhorn, of those the networks learned from.
        whole: Activation matching with all of those samples, too.
        sinkhorn: Iterations of Sinkhorn re-basin that start from the aligner's scores; 0 to leave it out.
        scratch: Iterations of Sinkhorn re-basin that start from nothing; 0 to leave it out.
    """
    if min(pairs, images, samples or 1) < 1 or points < 2 or min(sinkhorn, scratch) < 0:
        raise ValueError(
            f"got pairs={pairs}, images={images}, samples={samples}, points={points}, sinkhorn={sinkhorn}, "
            f"scratch={scratch}: expected at least 1 of the first three, 2 points and 0 iterations"
        )
    chosen = pairs_of(zoo, "test", pairs)
    if not chosen:
        raise ValueError(f"{zoo} has no two test networks; build more (zoo.count=)")
    rows = methods(aligner, whole, sinkhorn, scratch)
    out = {}
    with progress(f"comparing methods on {zoo.config.name}", len(rows) * len(chosen)) as step:
        for row in rows:
            others = []
            for pair in chosen:
                others.append(moved(zoo, pair, row, images))
                step(note=row.label)
            out[row.label] = line_barrier(zoo, chosen, others, "test", samples, points)
    return out


def moved(zoo: Zoo, pair: tuple[int, int], method: Method, images: int) -> nn.Module:
    """The second network of a pair, aligned to the first."""
    return aligned_by(zoo, pair, method, images).apply(zoo.module(pair[1]))


def aligned_by(zoo: Zoo, pair: tuple[int, int], method: Method, images: int) -> Alignment:
    """What a method says of a pair; those that minimise a loss minimise the task's."""
    a, b = (zoo.module(n) for n in pair)
    x, y = zoo.task.samples("train", zoo.config.item_of(pair[0]))
    options = dict(method.options)
    if method.data is not None:
        options["data"] = {"some": (x[:images], y[:images]), "all": (x, y)}.get(method.data, method.data)
    if "loss" in methods_of(method.name)[-1].options:
        options["loss"] = zoo.task.loss
    return match(a, b, method.name, example_input=x[:2], seed=0, **options)


def results_table(zoo: Zoo, results: dict[str, Barrier]) -> Table:
    """For the terminal: barrier with its standard error, AUC, and accuracy half way."""
    count = len(next(iter(results.values())).loss)
    table = Table(title=f"{title_of(zoo)}: {pairs_in_words(count)} of held-out networks", caption=zoo.folder.name)
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, row in summary(results).items():
        table.add_row(name, *cells(row))
    return table


def cells(row: dict[str, Any]) -> tuple[str, str, str]:
    """The numbers of a row of :func:`summary`, for people."""
    accuracy = "–" if row["accuracy"] is None else f"{row['accuracy']:.1%}"
    return with_error(row["barrier"], row["error"]), f"{row['auc']:.4g}", accuracy


def standard_error(each: Tensor) -> float:
    """Of the mean of numbers that do not depend on each other; none of a single one.

    >>> import torch
    >>> standard_error(torch.tensor([1.0, 3.0]))
    1.0
    """
    return float(each.std() / len(each) ** 0.5) if len(each) > 1 else 0.0


def with_error(value: float, error: float) -> str:
    """A number to the second digit of its standard error; one that has none, as a single pair, stands alone.

    Of one whose error is out of all proportion, as where two pairs agree by chance, six digits are enough.

    >>> with_error(1.27512, 0.00934)
    '1.2751 ± 0.0093'
    """
    if not 0 < error < inf or not isfinite(value):
        return f"{value:.4g}"
    if error < 1e-5 * abs(value):
        return f"{value:.6g} ± {error:.1g}"
    place = 1 - int(f"{error:.1e}".partition("e")[2])
    return f"{round(value, place):.{max(place, 0)}f} ± {round(error, place):.{max(place, 0)}f}"


def mean_with_error(each: Tensor) -> str:
    """The mean of numbers, to the second digit of its standard error."""
    return with_error(float(each.mean()), standard_error(each))


def share_with_error(each: Tensor) -> str:
    """The mean of shares, in percent, with its standard error; a single one stands alone.

    >>> import torch
    >>> share_with_error(torch.tensor([0.9, 1.0]))
    '95.0% ± 5.0%'
    """
    mean = f"{float(each.mean()):.1%}"
    return f"{mean} ± {standard_error(each):.1%}" if len(each) > 1 else mean


def title_of(zoo: Zoo) -> str:
    """Architecture and data of a zoo, for people: ``mlp on digits``."""
    return zoo.config.name if zoo.config.data is None else f"{zoo.config.name} on {zoo.config.data}"


def pairs_in_words(count: int) -> str:
    return "1 pair" if count == 1 else f"{count} pairs"


def summary(results: dict[str, Barrier]) -> dict[str, dict[str, Any]]:
    """The numbers of the table, as plain data."""
    return {
        name: {
            "barrier": float(result),
            "error": standard_error(result.barrier),
            "auc": float(result.auc.mean()),
            "accuracy": None if result.accuracy is None else float(result.accuracy[:, len(result.points) // 2].mean()),
            "pairs": len(result.loss),
        }
        for name, result in results.items()
    }
