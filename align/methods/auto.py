"""Try what is cheap and keep what is best, judged by the average of the two networks.

Weight distance misleads (it prefers weight matching always), so candidates are judged by what people want of them:
that the average of a and the permuted b answers well. With labels that is its loss; without them, how far its answers
are from the mean answers of both networks, on the inputs at hand or on noise.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from wsgraph import Permutation
from wsgraph.modules import tensors_of
from wsgraph.shell import shell

from ..alignment import Alignment, Candidate
from ..running.answers import Output, logits
from ..running.batches import NOISE, Samples
from ..running.batchnorm import reset_batchnorm
from ..running.consensus import answered, probes
from ..running.interpolation import interpolate
from ..running.outputs import Loss, evaluate
from .activation_matching import TooFewError
from .registry import Request, run

CANDIDATES = ("weight_matching", "deep_align", "deep_align+weight_matching", "activation_matching")
"""What is tried, in this order as long as the budget lasts."""
UNSEEN = "deep_align"
"""What to trust where nothing can be judged; ``python -m align.benchmark zero-shot`` compares it with the others."""
LARGE = 50_000_000
"""Weights above which only weight matching is tried, unless a budget allows more."""
PROBES = 1_000
"""Inputs drawn where no data is given."""
DOUBT = 0.6
"""Noise is a weak witness: by it, the learned aligner is overruled only where another is better by far."""
Judge = Callable[[Permutation], float]


def auto(
    request: Request, *, loss: Loss = F.cross_entropy, budget: float | None = None, output: Output = logits
) -> Alignment:
    """The best of several alignments; ``alignment.candidates`` says what was tried and how it did.

    Networks that cannot be run (graphs, state dicts) are matched by the learned aligner, and nothing is judged.

    Args:
        request: The networks; data with targets, without, ``"noise"`` or none.
        loss: Of outputs and targets.
        budget: Seconds after which nothing more is tried; at least one candidate always is.
        output: Picks the tensor that the loss is about; by default what is returned, or its ``logits``.
    """
    start, size = time.perf_counter(), sum(t.numel() for t in request.graphs()[0].tensors.values())
    if size > LARGE and budget is None:
        return _unjudged(request, "weight_matching")
    inputs = _inputs(request) if all(isinstance(m, nn.Module) for m in (request.a, request.b)) else None
    if inputs is None:
        return _unjudged(request, UNSEEN)
    judge = _judge(request, inputs, loss, output)
    tried: list[tuple[Candidate, Alignment]] = []
    for method in CANDIDATES:
        if tried and budget is not None and time.perf_counter() - start > budget:
            break
        with suppress(TooFewError):  # one input can judge the others
            found = _run(method, request, inputs)
            tried.append((Candidate(method, judge(found.permutation), found.elapsed), found))
    drawn = request.data is None or isinstance(request.data, str)
    trust = {"deep_align": 1 - DOUBT} if drawn else {}
    _, best = min(tried, key=lambda pair: (pair[0].score or 0.0) * trust.get(pair[0].method, 1.0))
    return best.replace(candidates=[candidate for candidate, _ in tried], elapsed=time.perf_counter() - start)


def _unjudged(request: Request, method: str) -> Alignment:
    found = run(method, _without(request))
    return found.replace(candidates=[Candidate(method, None, found.elapsed)])


def _run(method: str, request: Request, inputs: Samples) -> Alignment:
    asked = replace(_without(request).fork(), data=inputs) if method == "activation_matching" else _without(request)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a group that one candidate cannot see is no concern of the user's
        return run(method, asked)


def _without(request: Request) -> Request:
    return replace(request.fork(), data=None, samples=None)


def _inputs(request: Request) -> Samples:
    """The caller's data, or probes; ``None`` if the networks read something that cannot be drawn."""
    if request.data is not None and not isinstance(request.data, str):
        return request.data
    samples = request.samples or PROBES
    try:
        drawn = probes(request.a, request.data or NOISE, request.example_input, samples, request.fork().generator)
        return torch.cat(list(drawn))
    except (TypeError, ValueError):
        if request.data is not None:
            raise
        return None


def _judge(request: Request, inputs: Samples, loss: Loss, output: Output) -> Judge:
    """Loss half way between a and a permuted b, BatchNorm's statistics measured on what there is."""
    norms = any(isinstance(m, _BatchNorm) and m.track_running_stats for m in request.a.modules())
    first, second = request.a, request.b
    if norms and (request.data is None or isinstance(request.data, str)):
        # Noise has other statistics than data. All three networks are to be asked with those of the noise.
        first, second = (reset_batchnorm(shell(m), None, inputs) for m in (first, second))
    data, own = answered(first, second, inputs, loss, output=output)
    a, b, template = tensors_of(first), tensors_of(second), shell(first).eval()

    def judge(permutation: Permutation) -> float:
        middle: dict[str, Tensor] = interpolate(a, permutation.apply(b), 0.5)
        if norms:
            middle = tensors_of(reset_batchnorm(template, middle, data))
        return float(evaluate(template, [middle], own, data, output)[0])

    return judge
