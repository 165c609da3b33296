"""The learned aligner as a method: the pretrained one, unless another is passed."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from wsgraph import Spec

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
    if aligner is None:
        with _READING:
            aligner = _pretrained(left.network.like.device, torch.get_default_dtype())
    return aligner(left, right)


@cache
def _pretrained(device: torch.device, dtype: torch.dtype) -> DeepAlign:
    """The pretrained aligner, read once; nobody else gets hold of it, so it stays where it is and in eval mode."""
    from ..deep_align import DeepAlign  # here, for it brings the encoder and the Hugging Face hub

    return DeepAlign().to(device, dtype)
