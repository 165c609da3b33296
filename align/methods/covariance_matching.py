"""Covariance matching: activation matching on endless noise, and as much for gradients, in closed form."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from wsgraph import Spec

from ..alignment import Alignment, aligned_graphs, project
from ..running.covariance import covariances, standardised
from ..running.networks import NetworkLike, as_graph


def covariance_matching(
    a: NetworkLike, b: NetworkLike, *, example_input: Tensor | None = None, spec: Spec | None = None
) -> Alignment:
    r"""Match neurons whose activations, and whose gradients, would vary together; needs no data.

    .. math:: S_g = z(C_g) + z(G_g)

    with covariances of :mod:`align.running.covariance`, as correlations in units of their noise. Groups that nothing
    is known of (inside convolutions with groups) stay as they are.

    Args:
        a: The reference.
        b: The network to permute.
        example_input: Needed where the input's shape cannot be inferred.
        spec: The symmetry; traced when omitted.
    """
    left, right = aligned_graphs(*(as_graph(network, example_input, spec) for network in (a, b)))
    start = time.perf_counter()
    told = [standardised(found) for found in covariances([left.network], [right.network])]
    scores = {}
    for group in left.spec.free:
        like = left.network.like
        nothing = torch.eye(group.size, right.spec.groups[group.name].size, device=like.device, dtype=like.dtype)
        terms = [z[group.name][0][0] for z in told if group.name in z]
        scores[group.name] = torch.stack(terms).sum(0) if terms else nothing
    found = Alignment(left, right, scores, method="covariance_matching")
    project([found])
    return found.replace(elapsed=time.perf_counter() - start)
