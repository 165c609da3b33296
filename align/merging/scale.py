r"""Scale alignment of ReLU networks: the other symmetry, removed before averaging.

Scaling a neuron by c > 0 and what reads it by 1/c changes nothing. Of all such copies of b, take the one whose neurons
divide their size between writers and readers as a's do:

.. math:: c_i = \Big( \frac{\|w^a_{\to i}\|}{\|w^a_{i\to}\|} \cdot \frac{\|w^b_{i\to}\|}{\|w^b_{\to i}\|} \Big)^{1/2}
"""

from __future__ import annotations

import torch
from torch import Tensor

from wsgraph import WeightGraph
from wsgraph.rescale import rescale
from wsgraph.spans import parts_along
from wsgraph.spec import Scaling

ROUNDS = 100
TOLERANCE = 1e-9


def match_scale(a: WeightGraph, b: WeightGraph) -> WeightGraph:
    """b (already permuted to match a) with its neurons rescaled to a's; the same function.

    A layer's readers are the next one's writers, so the formula is applied until nothing changes any more.
    """
    a.spec.require_same(b.spec)
    scalings = a.spec.scalings
    goals = [_ratio(a, s) for s in scalings]
    factors = [torch.ones_like(goal) for goal in goals]
    wide = {k: t.detach().double() if t.is_floating_point() else t for k, t in b.tensors.items()}
    now = b
    for _ in range(ROUNDS):
        steps = [goal.div(_ratio(now, s)).sqrt() for goal, s in zip(goals, scalings, strict=True)]
        factors = [f * step for f, step in zip(factors, steps, strict=True)]
        now = b.replace(rescale(wide, b.spec, factors))
        if all(bool((step.log().abs() < TOLERANCE).all()) for step in steps):
            break
    return b.replace(rescale(b.tensors, b.spec, factors))


def _ratio(graph: WeightGraph, scaling: Scaling) -> Tensor:
    """‖writers‖ / ‖readers‖ of every neuron; 1 where one of them is zero."""
    up, down = (_norms(graph, scaling.group, slots) for slots in (scaling.up, scaling.down))
    alive = (up > 0) & (down > 0)
    return torch.where(alive, up / torch.where(alive, down, 1), 1)


def _norms(graph: WeightGraph, group: str, slots: tuple[tuple[str, int], ...]) -> Tensor:
    """Norm of everything in ``slots`` that belongs to each neuron of the group."""
    like = graph.network.like
    total = torch.zeros(graph.spec.groups[group].size, dtype=torch.float64, device=like.device)
    for name, dim in slots:
        tensor = graph.tensors[name].detach().double().square()
        along = tensor.movedim(dim, 0).flatten(1).sum(1) if tensor.dim() > 1 else tensor
        for part, piece in parts_along(graph.spec, graph.spec.params[name].axes[dim], along, 0):
            for k, factor in enumerate(part):
                if isinstance(factor, str) and group in graph.spec.lineage(factor):
                    total += piece.movedim(k, 0).reshape(len(total), -1).sum(1)
    return total.sqrt()
