r"""Straight-through estimation: gradient descent through the assignment as if it were the identity.

Free parameters w stand for "what b should look like". Each step projects them, P = argmax ⟨w, P b⟩ by Weight Matching
from the previous P, measures the loss half way between a and P b, and hands its gradient to w unchanged.
"""

from __future__ import annotations

import time
import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsgraph import Spec, to_graph
from wsgraph.randomness import seeded

from ..alignment import Alignment
from ..progress import progress
from ..running.answers import Output, logits
from ..running.batches import Samples
from ..running.outputs import Loss
from .objective import Best, LineLoss
from .weight_matching import Ascent


@torch.enable_grad()
def straight_through(
    a: nn.Module,
    b: nn.Module,
    *,
    data: Samples,
    loss: Loss = F.cross_entropy,
    init: Alignment | None = None,
    iterations: int = 200,
    lr: float = 1e-2,
    batch_size: int = 512,
    sweeps: int = 2,
    output: Output = logits,
    example_input: Tensor | None = None,
    spec: Spec | None = None,
    generator: torch.Generator | None = None,
) -> Alignment:
    """Optimise the loss at the midpoint with straight-through gradients; the best permutation seen is returned.

    Args:
        a: The reference.
        b: The network to permute.
        data: Pairs (inputs, targets), a dict with ``labels``, or a loader of such.
        loss: Of outputs and targets.
        init: An alignment to start from; the free parameters start at a, or half way to the aligned b.
        iterations: Steps of the optimiser.
        lr: Its learning rate.
        batch_size: Samples per step.
        sweeps: Weight Matching sweeps per projection.
        output: Picks the tensor that the loss is about; by default what is returned, or its ``logits``.
        example_input: Needed where the input's shape cannot be inferred.
        spec: The symmetry; traced when omitted.
        generator: Randomness of batches and orders; by default the same in every call.
    """
    if iterations < 1:
        raise ValueError(f"straight-through estimation needs at least one step, got iterations={iterations}")
    start, generator = time.perf_counter(), generator or seeded()
    left, right = (to_graph(m, example_input, spec=spec) for m in (a, b))
    spec = left.spec
    spec.require_same(right.spec)
    line = LineLoss(a, b, spec, loss, data, output=output, example_input=example_input, generator=generator)
    if not spec.free:
        return Alignment(left, right, maps={}, method="ste", elapsed=time.perf_counter() - start)
    anchor = line.left if init is None else line.between(init.permutation.apply(line.right), 0.5)
    free = {k: t.clone().requires_grad_(t.is_floating_point()) for k, t in anchor.items()}
    trained = [t for t in free.values() if t.requires_grad]
    optimiser = torch.optim.Adam(trained, lr=lr)
    permutation = init.permutation if init is not None else None
    best, first = Best(), None
    if init is not None:
        best.offer(init.permutation, line.hard(init.permutation))
    stream = line.stream(batch_size, generator)
    with progress("straight-through", iterations) as step:
        for _ in range(iterations):
            run = Ascent(left.replace({k: t.detach() for k, t in free.items()}), right, permutation, generator)
            run.climb(sweeps, 1e-7, step=lambda **_: None)
            permutation = run.permutation
            hard = line.hard(permutation)
            first = hard if first is None else first
            best.offer(permutation, hard)
            moved = permutation.apply(line.right)
            through = {k: moved[k] + (t - t.detach()) if t.requires_grad else moved[k] for k, t in free.items()}
            optimiser.zero_grad()
            line(through, 0.5, next(stream)).backward()
            optimiser.step()
            step(note=f"hard loss {best.loss:.4f}")
    converged = (first is not None and best.loss < first) or init is not None
    if not converged:
        warnings.warn(f"{iterations} straight-through steps improved nothing; raise iterations or lr", stacklevel=2)
    assert best.permutation is not None
    elapsed = time.perf_counter() - start
    return Alignment(left, right, None, best.permutation.maps, "ste", elapsed, converged)
