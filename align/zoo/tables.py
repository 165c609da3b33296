"""Tasks that are not images: scikit-learn's bundled tables, and random functions of random columns (``teacher-7``).

Columns of real tables are sparse, skewed and heavy-tailed, targets are classes or numbers; so are these.
"""

from __future__ import annotations

import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional as F

from ..data.dataset import Split
from ..running.outputs import Loss

BUNDLED = {"wine": datasets.load_wine, "breast_cancer": datasets.load_breast_cancer, "diabetes": datasets.load_diabetes}
TEACHER = "teacher-"
ROWS, TEST = 2_048, 0.25
"""Rows of a teacher's table, and the share of any table that is held out."""


class Table:
    """Predict a column of a table from the others: cross-entropy for classes, squared error for numbers.

    Args:
        data: ``wine``, ``breast_cancer``, ``diabetes``, or ``teacher-<number>``.
    """

    own = False

    def __init__(self, data: str) -> None:
        x, y = _teacher(int(data.removeprefix(TEACHER))) if data.startswith(TEACHER) else _bundled(data)
        self.loss: Loss = F.cross_entropy if y.dtype == torch.int64 else F.mse_loss
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
        held, rest = order[: int(TEST * len(x))], order[int(TEST * len(x)) :]
        x = (x - x[rest].mean(0)) / x[rest].std(0).clamp_min(1e-6)
        if y.dtype != torch.int64:
            y = (y - y[rest].mean(0)) / y[rest].std(0).clamp_min(1e-6)
        self.train, self.test = (x[rest], y[rest]), (x[held], y[held])

    def samples(self, part: str, item: int = 0) -> Split:
        return self.train if part == "train" else self.test


def _bundled(name: str) -> tuple[Tensor, Tensor]:
    if name not in BUNDLED:
        raise ValueError(f"no table {name!r}; choose one of {', '.join(BUNDLED)}, or {TEACHER}<number>")
    found = BUNDLED[name]()
    y = torch.from_numpy(found.target)
    classes = not y.is_floating_point()
    return torch.from_numpy(found.data).float(), y.long() if classes else y.float()[:, None]


def table_shape(data: str) -> tuple[int, int]:
    """Number of columns to read and of outputs."""
    if data.startswith(TEACHER):
        return _teacher_shape(int(data.removeprefix(TEACHER)))
    x, y = _bundled(data)
    return x.shape[1], int(y.max()) + 1 if y.dtype == torch.int64 else y.shape[1]


def _teacher_shape(number: int) -> tuple[int, int]:
    draw = torch.Generator().manual_seed(number)
    columns = int(torch.randint(6, 80, (), generator=draw))
    return columns, (1, 1, 3, 6)[number % 4]


def _teacher(number: int) -> tuple[Tensor, Tensor]:
    """Columns of many distributions; targets from a random network of them: numbers, or (odd numbers) classes."""
    columns, outputs = _teacher_shape(number)
    draw = torch.Generator().manual_seed(number + 1)
    normal = torch.randn(ROWS, columns, generator=draw)
    mixing = torch.randn(columns, columns, generator=draw) / columns**0.5
    normal = normal @ (torch.eye(columns) + 0.7 * mixing)  # columns of real tables are correlated
    kind = torch.randint(0, 4, (columns,), generator=draw)
    skewed, heavy, sparse = normal.exp(), normal.sign() * normal.abs() ** 2, normal * (normal > 1)
    x = torch.stack([normal, skewed, heavy, sparse])[kind, :, torch.arange(columns)].T.clamp(-8, 8).contiguous()
    classes = number % 2 == 1 and outputs > 1
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(number + 2)
        teacher = nn.Sequential(nn.Linear(columns, 24), nn.Tanh(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, outputs))
        for p in teacher.parameters():
            p.mul_(2.5)
        y = teacher((x - x.mean(0)) / x.std(0).clamp_min(1e-6))
    if classes:
        return x, ((y - y.mean(0)) / y.std(0)).argmax(1)
    return x, y + 0.1 * y.std(0) * torch.randn(y.shape, generator=draw)
