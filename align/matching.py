"""Every aligner by one call."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from wsgraph import Permutation, Spec, WeightGraph
from wsgraph.checkpoints import opened
from wsgraph.inputs import only_tensor
from wsgraph.modules import with_tensors
from wsgraph.randomness import seeded
from wsgraph.wrappers import wrapped_like

from .alignment import Alignment
from .merging.scale import match_scale
from .methods.registry import METHODS, Request, require_request, run
from .running.batches import Samples, for_model
from .running.fitting import at_hand
from .running.networks import NetworkLike, in_one_dtype, read_state_dicts

if TYPE_CHECKING:
    from .deep_align import DeepAlign

SCALE_TURNS = 10
"""Matches and rescalings that ``scale=True`` takes turns at before it gives up."""


@torch.inference_mode(False)  # some methods differentiate, whatever the caller's mode
def match(
    a: NetworkLike,
    b: NetworkLike,
    method: str = "auto",
    *,
    data: Samples = None,
    samples: int | None = None,
    example_input: Tensor | None = None,
    spec: Spec | None = None,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    aligner: DeepAlign | None = None,
    scale: bool = False,
    **options: Any,
) -> Alignment:
    """Find how network b must be permuted to match network a.

    Args:
        a: The reference: a module, its WeightGraph, its state dict (see :func:`wsgraph.to_graph`), or a path: that of a
            state dict (``.safetensors``, ``.pt``) or of a folder of Hugging Face.
        b: The network to permute, of the same architecture.
        method: One of :data:`align.methods.METHODS`, or several joined by ``+``: each starts from the result of the one
            before, as in ``"weight_matching+sinkhorn"``. ``auto`` tries the cheap ones and keeps the best by what the
            average of both networks says (:mod:`align.methods.auto`); :mod:`align.methods.registry` tells how to add
            one.
        data: For methods that run the networks: inputs, pairs (inputs, targets), a loader, ``"noise"``, ``"dreams"``,
            noise that varies as the networks' first layers expect (:mod:`align.running.dreams`), or ``"pictures"``, in
            place of images (:mod:`align.running.pictures`). The others refuse it, as all but ``deep_align`` and
            ``auto`` refuse an ``aligner``.
        samples: How many inputs are drawn; when omitted 5000 of ``"noise"``, 2000 of the others (of large pictures
            at least 256). Fewer are faster where networks are costly.
        example_input: Needed where the input's shape cannot be inferred.
        spec: The symmetry of both; traced when omitted.
        seed: Of everything drawn; 0 by default, so that the same call gives the same answer. Or pass a ``generator``.
        aligner: The learned aligner that ``deep_align`` uses, in place of the default one.
        scale: Take turns with rescaling b's neurons to those of a (:func:`align.merging.scale.match_scale`), so that
            the scale symmetry of ReLU networks does not mislead the match. The answer is still a permutation of b
            itself; ``align.merge(..., scale=True)`` rescales as well.
        options: Arguments of the (last) method itself.

    Example:
        >>> import torch, align
        >>> from torch import nn
        >>> a, b = (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)) for _ in range(2))
        >>> b = align.match(a, b).apply(b)
    """
    if not isinstance(method, str):
        raise TypeError(
            f"match(a, b, method): the third argument is the method, one of {list(METHODS)}, got "
            f"{type(method).__name__}; example inputs go into example_input=, data goes into data="
        )
    a, b = opened(a), opened(b)
    if isinstance(a, nn.Module) and isinstance(b, nn.Module):
        a = wrapped_like(a, b)  # the answer is about b, by the names that b has
    for network in (a, b):
        if isinstance(network, nn.Module):
            example_input = only_tensor(network, example_input)
    request = Request(a, b, None, data, samples, example_input, spec, generator or seeded(seed), aligner)
    require_request(method, request, options, COMMON)
    example_input = at_hand(a, data) if example_input is None else example_input
    read = read_state_dicts((a, b), example_input, spec)
    a, b = in_one_dtype(*read)
    if isinstance(a, nn.Module) and a is not read[0] and example_input is not None:
        example_input = for_model(example_input, a)
    request = replace(request, a=a, b=b, example_input=example_input)
    return _with_scale(method, request, options) if scale else run(method, request, **options)


COMMON = [p.name for p in inspect.signature(match).parameters.values() if p.kind is p.KEYWORD_ONLY]
"""What :func:`match` itself takes, whatever the method."""


def _with_scale(method: str, request: Request, options: dict[str, Any]) -> Alignment:
    """Match, rescale the permuted b to a, match again, until the permutation rests."""
    left, right = request.graphs()
    now, total, elapsed = right, Permutation.identity(right.spec), 0.0
    for turn in range(SCALE_TURNS):
        network = now if isinstance(request.b, WeightGraph) else with_tensors(request.b, now.tensors)
        found = run(method, replace(request, b=network), **options)
        elapsed += found.elapsed
        total = found.permutation @ total
        rests = turn > 0 and found.permutation == Permutation.identity(right.spec)
        if rests:
            break
        now = match_scale(left, found.permutation.apply(now))
    return Alignment(left, right, None, total.maps, method, elapsed, found.converged and rests)
