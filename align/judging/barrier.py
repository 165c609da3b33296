r"""How far apart two networks' basins are: the loss along the line between them.

.. math:: \psi(\lambda) = L(\lambda a + (1-\lambda) b) - \big(\lambda L(a) + (1-\lambda) L(b)\big), \qquad
          \text{barrier} = \max(0, \max_\lambda \psi), \quad \text{AUC} = \max\Big(0, \int_0^1 \psi\Big)

λ = 1 is a, λ = 0 is b.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from wsgraph import WeightGraph
from wsgraph.modules import tensors_of
from wsgraph.randomness import OwnDraws
from wsgraph.shell import shell

from ..alignment import Alignment, apply_each
from ..progress import progress
from ..running.batches import Data, batches
from ..running.layout import channels_last
from ..running.networks import require_modules
from ..running.stacked import over_networks, slow_together

Loss = Callable[[Tensor, Tensor], Tensor]
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
    a: nn.Module | Sequence[nn.Module],
    b: nn.Module | Sequence[nn.Module],
    loss: Loss = F.cross_entropy,
    data: Data = None,
    points: int = 25,
    reset_batchnorm: Data = None,
    *,
    alignment: Alignment | Sequence[Alignment] | None = None,
) -> Barrier:
    """Evaluate the networks on the line between a and b.

    Args:
        a: A network, or several of one architecture: then pairs (a₁, b₁), (a₂, b₂), … are evaluated together.
        b: Its partner(s), aligned already or by ``alignment``.
        loss: Mean loss of outputs and targets, as ``torch.nn.functional.cross_entropy``.
        data: A pair (inputs, targets) or a loader of such pairs.
        points: Number of points on the line, ends included.
        reset_batchnorm: Inputs to measure BatchNorm statistics anew at every point; without it they are interpolated.
        alignment: How b is permuted first; a sequence of them for several pairs.
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
    single = isinstance(a, nn.Module)
    left, right = _networks(a), apply_each(alignment, _networks(b))
    if len(left) != len(right) or not left:
        raise ValueError(f"{len(left)} networks a but {len(right)} networks b; expected pairs, at least one")
    template = shell(left[0]).eval()
    lam = torch.linspace(0, 1, points)
    jobs = [(i, k) for i in range(len(left)) for k in range(points)]
    ends = [(tensors_of(x), tensors_of(y)) for x, y in zip(left, right, strict=True)]
    for tensors in (t for pair in ends for t in pair):
        require_same_shapes(ends[0][0], tensors)
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
                networks = [_reset(template, networks[0], reset_batchnorm)]
            losses[start : start + len(now)], found = evaluate(template, networks, loss, data)
            if found is not None:
                classes, hits[start : start + len(now)] = True, found
            step(advance=len(now))
    shape = (points,) if single else (len(left), points)
    return Barrier(lam, losses.view(shape), hits.view(shape) if classes else None)


def _networks(networks: nn.Module | Sequence[nn.Module]) -> list[nn.Module]:
    single = isinstance(networks, (nn.Module, WeightGraph, Mapping, str))
    found: list[nn.Module] = [networks] if single else list(networks)  # type: ignore[list-item, arg-type]
    require_modules("barrier runs the networks", found)
    return found


def require_same_shapes(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> None:
    """Raise unless two networks have the same parameters, naming the first that differs."""
    for name in dict.fromkeys([*a, *b]):
        x, y = (tuple(t[name].shape) if name in t else "missing" for t in (a, b))
        if x != y:
            raise ValueError(f"the networks have different architectures: '{name}' is {x} in one and {y} in another")


def interpolate(a: Mapping[str, Tensor], b: Mapping[str, Tensor], weight: float) -> dict[str, Tensor]:
    """weight · a + (1 − weight) · b, new tensors throughout; counters are copied from a."""
    return {k: weight * x + (1 - weight) * b[k] if x.is_floating_point() else x.clone() for k, x in a.items()}


@torch.no_grad()
def evaluate(
    template: nn.Module, networks: Sequence[Mapping[str, Tensor]], loss: Loss, data: Data
) -> tuple[Tensor, Tensor | None]:
    """Mean loss and accuracy of several networks of one architecture, vectorised over the networks where torch can.

    Args:
        template: A module of the architecture in eval mode; not the caller's own, but a shell of it.
        networks: Their tensors.
        loss: Of outputs and targets.
        data: A pair (inputs, targets) or a loader of such pairs.

    Shapes:
        - **output:** two vectors of ``len(networks)``; the second is ``None`` when targets are not classes
    """
    stacked = {k: torch.stack([n[k].detach() for n in networks]) for k in networks[0]} if len(networks) > 1 else None
    total, hits, count, classes = torch.zeros(len(networks)), torch.zeros(len(networks)), 0, False
    draws = OwnDraws()
    for x, y in batches(data, template):
        if y is None:
            raise ValueError("data has no targets; pass (inputs, targets) or a loader of such pairs")
        with draws:
            if stacked is None:
                out = call(template, networks[0], channels_last(template, x))[None]
            else:
                out = over_networks(template, lambda n, x=x: call(template, n, x), stacked, rewind=False)
        total += len(x) * torch.stack([loss(o, y) for o in out]).cpu()
        if out.dim() == 3 and y.dim() == 1 and not y.is_floating_point():
            classes = True
            hits += (out.argmax(-1) == y).sum(1).cpu()
        count += len(x)
    return total / count, hits / count if classes else None


def call(template: nn.Module, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Outputs of ``template`` with other tensors; all names of tied ones are among them.

    For a moment they are in the template itself, so let it be a shell of the caller's module.
    """
    return functional_call(template, dict(tensors), (x,), tie_weights=False)


def _reset(template: nn.Module, network: dict[str, Tensor], data: Data) -> dict[str, Tensor]:
    from ..merging.repair import reset_batchnorm

    return tensors_of(reset_batchnorm(template, network, data))
