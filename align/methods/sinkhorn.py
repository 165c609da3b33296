r"""Sinkhorn re-basin: optimise the permutations themselves, as doubly stochastic matrices, by gradient descent.

.. math:: \min_Z\; C\big(a, P b\big), \qquad P = \mathrm{Sinkhorn}(Z/\tau)

with C the loss at a random point of the line (``rnd``, the paper's C_Rnd), at its middle (``mid``), or the distance of
the weights (``l2``, which needs no data).
"""

from __future__ import annotations

import math
import time
import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsgraph import Permutation, Spec, WeightGraph
from wsgraph.randomness import seeded

from ..alignment import Alignment, counted
from ..progress import progress
from ..projection.assignment import hard_maps
from ..projection.implicit import implicit_maps
from ..projection.sinkhorn import sharpened, soft_maps
from ..running.answers import Output, logits
from ..running.batches import Samples
from ..running.networks import as_graph
from ..running.outputs import Loss
from .objective import Best, LineLoss

COSTS = ("rnd", "mid", "l2")


@torch.enable_grad()
def sinkhorn_rebasin(
    a: nn.Module | WeightGraph,
    b: nn.Module | WeightGraph,
    *,
    data: Samples = None,
    loss: Loss = F.cross_entropy,
    cost: str = "rnd",
    init: Alignment | None = None,
    iterations: int = 1000,
    lr: float = 0.1,
    batch_size: int = 128,
    temperature: float = 1.0,
    projections: int = 20,
    gradient: str = "unrolled",
    check_every: int = 25,
    output: Output = logits,
    example_input: Tensor | None = None,
    spec: Spec | None = None,
    generator: torch.Generator | None = None,
) -> Alignment:
    """Optimise permutation logits with Adam; the hard permutation of the lowest loss seen is returned.

    Args:
        a: The reference (a graph is enough for ``cost="l2"``).
        b: The network to permute.
        data: Pairs (inputs, targets), a dict with ``labels``, or a loader of such; not needed for ``cost="l2"``.
        loss: Of outputs and targets.
        cost: ``rnd``, ``mid`` or ``l2``.
        init: An alignment to start from: its scores, scaled up where they are too soft to keep it (see below), or
            logits (log n + 1)·P of its permutation, at which Sinkhorn gives each match about three quarters of its row
            whatever the width.
        iterations: Steps of the optimiser.
        lr: Its learning rate.
        batch_size: Samples per step.
        temperature: τ.
        projections: Sinkhorn iterations per step.
        gradient: ``unrolled`` or ``implicit`` differentiation of the projection.
        check_every: Steps between two looks at the hard loss.
        output: Picks the tensor that the loss is about; by default what is returned, or its ``logits``.
        example_input: Needed where the input's shape cannot be inferred.
        spec: The symmetry; traced when omitted.
        generator: Randomness of batches, λ and the initial logits; by default the same in every call.
    """
    if cost not in COSTS:
        raise ValueError(f"cost '{cost}' is not one of {COSTS}")
    if gradient not in ("unrolled", "implicit"):
        raise ValueError(f"gradient '{gradient}' is not one of ('unrolled', 'implicit')")
    start, generator = time.perf_counter(), generator or seeded()
    left, right = (as_graph(g, example_input, spec) for g in (a, b))
    spec = left.spec
    spec.require_same(right.spec)
    objective = _objective(a, b, (left, right), cost, data, loss, output, example_input, batch_size, generator)
    if not spec.free:
        return Alignment(left, right, maps={}, method=f"sinkhorn_{cost}", elapsed=time.perf_counter() - start)
    logits = _initial(left, init, generator)
    optimiser = torch.optim.Adam(list(logits.values()), lr=lr)
    best = Best()
    maps = implicit_maps if gradient == "implicit" else soft_maps

    def look() -> float:
        permutation = Permutation(spec, hard_maps(spec, logits))
        value = objective.hard(permutation)
        best.offer(permutation, value)
        return value

    first = look()
    if init is not None:
        best.offer(init.permutation, objective.hard(init.permutation))
    with progress(f"sinkhorn ({cost})", iterations) as step:
        for k in range(1, iterations + 1):
            soft = Permutation.nearly(spec, maps(spec, logits, temperature, projections))
            value = objective.soft(soft)
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            if k % check_every == 0 or k == iterations:
                look()
            step(note=f"hard loss {best.loss:.4f}")
    converged = best.loss < first or best.loss == 0 or init is not None or iterations == 0
    if not converged:
        warnings.warn(
            f"{iterations} Sinkhorn iterations found nothing better than their start; raise iterations or lr",
            stacklevel=2,
        )
    assert best.permutation is not None
    elapsed = time.perf_counter() - start
    final = {name: z.detach() for name, z in logits.items()}
    return Alignment(left, right, final, best.permutation.maps, f"sinkhorn_{cost}", elapsed, converged)


def _initial(graph: WeightGraph, init: Alignment | None, generator: torch.Generator) -> dict[str, Tensor]:
    like = graph.network.like
    dtype = torch.promote_types(like.dtype, torch.float32)
    logits = {}
    for group in graph.spec.free:
        n = group.size
        if init is None:
            z = torch.eye(n) + 0.1 * torch.randn(n, n, generator=generator)
        elif init.scores and group.name in init.scores:
            z = sharpened(init.scores[group.name].detach().cpu())
        else:
            z = (math.log(n) + 1) * init.permutation.matrix(group.name).cpu()
        logits[group.name] = z.to(like.device, dtype).requires_grad_()
    return logits


class _OnLine:
    """Task loss on the line, at a random point or in the middle."""

    def __init__(self, line: LineLoss, middle: bool, size: int, generator: torch.Generator) -> None:
        self.line, self.middle, self.generator = line, middle, generator
        self.batches = line.stream(size, generator)
        self.hard = line.hard

    def soft(self, permutation: Permutation) -> Tensor:
        weight = 0.5 if self.middle else float(torch.rand((), generator=self.generator))
        return self.line(permutation.apply(self.line.right), weight, next(self.batches))


class _Distance:
    """‖a − P b‖² relative to ‖a‖², norm statistics aside."""

    def __init__(self, a: WeightGraph, b: WeightGraph) -> None:
        self.a = {k: a.tensors[k].detach() for k in counted(a)}
        self.b = {k: t.detach() for k, t in b.tensors.items()}
        self.scale = sum(t.square().sum() for t in self.a.values())

    def soft(self, permutation: Permutation) -> Tensor:
        moved = permutation.apply(self.b)
        total: Tensor = sum((x - moved[k]).square().sum() for k, x in self.a.items())  # type: ignore[assignment]
        return total / self.scale

    def hard(self, permutation: Permutation) -> float:
        with torch.no_grad():
            return float(self.soft(permutation))


def _objective(
    a: nn.Module | WeightGraph,
    b: nn.Module | WeightGraph,
    graphs: tuple[WeightGraph, WeightGraph],
    cost: str,
    data: Samples,
    loss: Loss,
    output: Output,
    example_input: Tensor | None,
    size: int,
    generator: torch.Generator,
) -> _OnLine | _Distance:
    if cost == "l2":
        return _Distance(*graphs)
    if data is None or not isinstance(a, nn.Module) or not isinstance(b, nn.Module):
        raise ValueError(
            f"sinkhorn with cost '{cost}' runs the networks: pass modules and data=(inputs, targets), or cost='l2'"
        )
    line = LineLoss(a, b, graphs[0].spec, loss, data, output=output, example_input=example_input, generator=generator)
    return _OnLine(line, cost == "mid", size, generator)
