r"""How far apart two networks' basins are: the loss along the line between them.

.. math:: \psi(\lambda) = L(\lambda a + (1-\lambda) b) - \big(\lambda L(a) + (1-\lambda) L(b)\big), \qquad
          \text{barrier} = \max(0, \max_\lambda \psi), \quad \text{AUC} = \max\Big(0, \int_0^1 \psi\Big)

λ = 1 is a, λ = 0 is b.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsgraph import WeightGraph
from wsgraph.checkpoints import AnyPath, opened
from wsgraph.modules import tensors_of
from wsgraph.shell import shell

from ..alignment import Alignment, apply_each
from ..progress import progress
from ..running import batchnorm
from ..running.answers import Output, logits
from ..running.batches import Samples
from ..running.fitting import require_fitting
from ..running.interpolation import interpolate
from ..running.likeness import require_alike
from ..running.networks import require_modules
from ..running.outputs import Loss, evaluate
from ..running.stacked import slow_together

Runnable = nn.Module | AnyPath
TOGETHER = 2_000_000
"""Weights evaluated at once: points on the line (and pairs) are vectorised up to this many, then taken in turn."""


@dataclass(frozen=True)
class Barrier:
    """The loss along the line, for one pair or (with a leading axis) for several.

    Attributes:
        points: λ, from 0 (b) to 1 (a).
        loss: L at each point.
        accuracy: Share of right answers at each point; ``None`` when targets are not classes.
    """

    points: Tensor
    loss: Tensor
    accuracy: Tensor | None = None

    @property
    def psi(self) -> Tensor:
        """ψ(λ): the loss above the straight line between the endpoints."""
        return self.loss - (self.points * self.loss[..., -1:] + (1 - self.points) * self.loss[..., :1])

    @property
    def barrier(self) -> Tensor:
        """max(0, max ψ)."""
        return self.psi.max(dim=-1).values.clamp_min(0)

    @property
    def auc(self) -> Tensor:
        """max(0, ∫ψ), by the trapezoidal rule."""
        return torch.trapezoid(self.psi, self.points).clamp_min(0)

    def __float__(self) -> float:
        return float(self.barrier.mean())

    def plot(self, path: str | os.PathLike[str], label: str = "") -> None:
        """Save a picture of the loss along the line as PNG and SVG (and PDF, by the ending of ``path``)."""
        from ..plots import plot_lines

        plot_lines({label or f"barrier {float(self):.3g}": self}, path)

    def __repr__(self) -> str:
        shape = "" if self.loss.dim() == 1 else f" mean of {len(self.loss)} pair{'s' * (len(self.loss) != 1)},"
        return f"Barrier({float(self):.4g},{shape} AUC {float(self.auc.mean()):.4g}, {len(self.points)} points)"


@torch.no_grad()
def barrier(
    a: Runnable | Sequence[Runnable],
    b: Runnable | Sequence[Runnable],
    loss: Loss = F.cross_entropy,
    data: Samples = None,
    points: int = 25,
    reset_batchnorm: Samples = None,
    *,
    alignment: Alignment | Sequence[Alignment] | None = None,
    output: Output = logits,
) -> Barrier:
    """Evaluate the networks on the line between a and b.

    Args:
        a: A network (a module, or a folder of Hugging Face), or several of one architecture: then pairs (a₁, b₁),
            (a₂, b₂), … are evaluated together.
        b: Its partner(s), aligned already or by ``alignment``.
        loss: Mean loss of outputs and targets, as ``torch.nn.functional.cross_entropy``.
        data: A pair (inputs, targets), a dict with ``labels``, or a loader of such.
        points: Number of points on the line, ends included.
        reset_batchnorm: Inputs to measure BatchNorm statistics anew at every point; without it they are interpolated.
        alignment: How b is permuted first; a sequence of them for several pairs.
        output: Picks the tensor that the loss is about; by default what is returned, or its ``logits``.
    """
    if not callable(loss):
        raise TypeError(
            f"loss is of type {type(loss).__name__}, expected a function of outputs and targets; data goes by name: "
            "barrier(a, b, data=(inputs, targets))"
        )
    if data is None:
        raise ValueError("barrier needs data: a pair (inputs, targets) or a loader of such pairs")
    if points < 2:
        raise ValueError(f"a line needs its two ends: got points={points}, expected at least 2")
    single = isinstance(a, (nn.Module, str, os.PathLike))
    left, right = _networks(a), apply_each(alignment, _networks(b))
    if len(left) != len(right) or not left:
        raise ValueError(f"{len(left)} networks a but {len(right)} networks b; expected pairs, at least one")
    require_alike([*left, *right], data)
    require_fitting(left[0], data)
    template = shell(left[0]).eval()
    lam = torch.linspace(0, 1, points)
    jobs = [(i, k) for i in range(len(left)) for k in range(points)]
    ends = [(tensors_of(x), tensors_of(y)) for x, y in zip(left, right, strict=True)]
    size = sum(t.numel() for t in ends[0][0].values())
    alone = reset_batchnorm is not None or slow_together(ends[0][0])
    chunk = 1 if alone else max(1, TOGETHER // size)
    losses, hits = torch.zeros(len(jobs)), torch.zeros(len(jobs))
    classes = False
    with progress("loss along the line", len(jobs)) as step:
        for start in range(0, len(jobs), chunk):
            now = jobs[start : start + chunk]
            networks = [interpolate(*ends[i], float(lam[k])) for i, k in now]
            if reset_batchnorm is not None:
                networks = [tensors_of(batchnorm.reset_batchnorm(template, networks[0], reset_batchnorm))]
            losses[start : start + len(now)], found = evaluate(template, networks, loss, data, output)
            if found is not None:
                classes, hits[start : start + len(now)] = True, found
            step(advance=len(now))
    shape = (points,) if single else (len(left), points)
    return Barrier(lam, losses.view(shape), hits.view(shape) if classes else None)


def _networks(networks: Runnable | Sequence[Runnable]) -> list[nn.Module]:
    single = isinstance(networks, (nn.Module, WeightGraph, Mapping, str, os.PathLike))
    found = [opened(network) for network in ([networks] if single else networks)]  # type: ignore[union-attr]
    require_modules("barrier runs the networks", found)
    return found
