"""No alignment at all, to compare the others with."""

from __future__ import annotations

from torch import Tensor

from wsgraph import Permutation, Spec

from ..alignment import Alignment
from ..running.networks import NetworkLike, as_graph


def identity(
    a: NetworkLike, b: NetworkLike, *, example_input: Tensor | None = None, spec: Spec | None = None
) -> Alignment:
    """Every neuron of b stays where it is."""
    left, right = (as_graph(network, example_input, spec) for network in (a, b))
    left.spec.require_same(right.spec)
    return Alignment(left, right, maps=Permutation.identity(left.spec).maps, method="identity")
