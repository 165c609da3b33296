"""The learned aligner as a method: the pretrained one, unless another is passed."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from wsgraph import Spec, WeightGraph

from ..alignment import Alignment
from ..running.networks import NetworkLike, as_graph

if TYPE_CHECKING:
    from ..deep_align import DeepAlign

_READING = Lock()  # whoever comes first reads the pretrained aligner, and the other threads wait


def learned(
    a: NetworkLike,
    b: NetworkLike,
    *,
    aligner: DeepAlign | None = None,
    example_input: Tensor | None = None,
    spec: Spec | None = None,
) -> Alignment:
    """Match neurons by what an aligner has learned; one forward pass, no data.

    Args:
        a: The reference.
        b: The network to permute.
        aligner: The pretrained one that comes with the package when omitted.
        example_input: Needed where the input's shape cannot be inferred.
        spec: The symmetry; traced when omitted.
    """
    left, right = (as_graph(network, example_input, spec) for network in (a, b))
    return (aligner or pretrained(left))(left, right)


def pretrained(graph: WeightGraph) -> DeepAlign:
    """The aligner that comes with the package, where the network is; shared, so not to be changed."""
    with _READING:
        return _pretrained(graph.network.like.device, torch.get_default_dtype())


@cache
def _pretrained(device: torch.device, dtype: torch.dtype) -> DeepAlign:
    """Read once; no user gets hold of it, so it stays where it is and in eval mode."""
    from ..deep_align import DeepAlign  # here, for it brings the encoder and the Hugging Face hub

    return DeepAlign().to(device, dtype)
