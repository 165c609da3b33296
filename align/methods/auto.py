"""Try what is cheap and keep what is best, judged by the average of the two networks.

Weight distance misleads (it prefers weight matching always), so candidates are judged by what people want of them:
that the average of a and the permuted b answers well. With labels that is its loss; without them, how far its answers
are from the mean answers of both networks, on the inputs at hand or on drawn ones (:mod:`align.running.dreams`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from wsgraph import Permutation
from wsgraph.modules import tensors_of
from wsgraph.quiet import quiet
from wsgraph.shell import shell

from ..alignment import Alignment, Candidate
from ..projection.refinement import WIDEST
from ..running.answers import Output, logits
from ..running.batches import NOISE, Samples, is_pair
from ..running.batchnorm import reset_batchnorm
from ..running.consensus import answered, probes
from ..running.dreams import DREAMS, first_layers
from ..running.interpolation import interpolate
from ..running.outputs import Loss, evaluate
from ..running.pictures import PICTURES
from .activation_matching import TooFewError
from .registry import Request, run

CLOSED_FORM, OPTIMISED = "covariance_matching", "sinkhorn"
CANDIDATES = (
    "weight_matching", "deep_align", CLOSED_FORM, "deep_align+weight_matching", "activation_matching", OPTIMISED
)  # fmt: skip
"""What is tried, in this order as long as the budget lasts. The last one starts from the best of the others, where
there is enough data, or where dreams are."""
UNSEEN = "deep_align"
"""What to trust where nothing can be judged; ``python -m align.benchmark zero-shot`` compares it with the others."""
LARGE = 50_000_000
"""Weights above which only weight matching is tried, unless a budget allows more."""
SMALL = 2_000_000
"""Weights up to which covariances are cheap, and permutations are optimised for some iterations."""
ITERATIONS = 25
LEAST = 256
"""Samples of the caller's below which permutations are not optimised on them: the judge could not tell."""
PROBES = 1_000
"""Inputs drawn where no data is given."""
DOUBT = 0.6
"""What is drawn is a weak witness: by it, the learned aligner is overruled only where another is better by far."""
LEARNED = (UNSEEN, f"{UNSEEN}+{OPTIMISED}")
Judge = Callable[[Permutation], float]
Tried = tuple[Candidate, Alignment]


def auto(
    request: Request, *, loss: Loss = F.cross_entropy, budget: float | None = None, output: Output = logits
) -> Alignment:
    """The best of several alignments; ``alignment.candidates`` says what was tried and how it did.

    Networks that cannot be run (graphs, state dicts), or have different widths, are matched by the learned aligner, and
    nothing is judged.

    Args:
        request: The networks; data with targets, without, ``"noise"``, ``"pictures"``, or ``"dreams"``, as if there is
            none.
        loss: Of outputs and targets.
        budget: Seconds after which nothing more is tried; at least one candidate always is.
        output: Picks the tensor that the loss is about; by default what is returned, or its ``logits``.
    """
    start = time.perf_counter()
    if isinstance(request.data, str) and request.data == PICTURES:
        request = request.dreamed()  # as good as inputs without targets
    a, b = request.graphs()
    if [g.size for g in a.spec.groups.values()] != [g.size for g in b.spec.groups.values()]:
        return _unjudged(request, UNSEEN)  # there is no line between networks of different widths
    size = sum(t.numel() for t in a.tensors.values())
    if size > LARGE and budget is None:
        return _unjudged(request, "weight_matching")
    sight = _sight(request) if all(isinstance(m, nn.Module) for m in (request.a, request.b)) else None
    if sight is None:
        if request.data is not None:
            unused = "state dicts, files and graphs cannot be run, so data= is not used, and nothing is judged"
            warnings.warn(f"{unused}: pass modules", stacklevel=2)
        return _unjudged(request, UNSEEN)
    try:
        judge = _judge(request, sight, loss, output)
    except Exception as error:  # whatever somebody's module says to inputs that were drawn for it
        if not sight.drawn:
            raise
        warnings.warn(f"the networks fail on what is drawn for them, so nothing is judged: {error}", stacklevel=2)
        return _unjudged(request, UNSEEN)
    tried: list[Tried] = []
    for name in CANDIDATES:
        if (name in (CLOSED_FORM, OPTIMISED) and size > SMALL) or (name == OPTIMISED and sight.optimised is None):
            continue
        if tried and budget is not None and time.perf_counter() - start > budget:
            break
        method = f"{_best(tried, sight)[0].method}+{name}" if name == OPTIMISED else name
        with suppress(TooFewError):  # one input can judge the others
            found = _run(method, {c.method: known for c, known in tried}, request, sight, loss, output)
            tried.append((Candidate(method, judge(found.permutation), found.elapsed), found))
    kept, best = _best(tried, sight)
    candidates = [replace(candidate, kept=candidate is kept) for candidate, _ in tried]
    return best.replace(candidates=candidates, elapsed=time.perf_counter() - start)


def _best(tried: Sequence[Tried], sight: Sight) -> Tried:
    """The one of the lowest score; by what was drawn, the learned aligner counts for more."""
    trust = dict.fromkeys(LEARNED, 1 - DOUBT) if sight.drawn else {}
    return min(tried, key=lambda pair: (pair[0].score or 0.0) * trust.get(pair[0].method, 1.0))


@dataclass(frozen=True)
class Sight:
    """What candidates see, and what they are judged on.

    Attributes:
        judged: The judge's samples.
        matched: What activations are matched on.
        optimised: What permutations are optimised on, none of the judge's samples; ``None`` if they are too few, or
            drawn for networks so wide that nothing is gained by it.
        drawn: Whether there is no data, and something drawn stands for it.
    """

    judged: Samples
    matched: Samples
    optimised: Samples = None
    drawn: bool = False


def _sight(request: Request) -> Sight | None:
    """The caller's data, or probes; ``None`` if the networks read something that cannot be drawn."""
    data = request.data
    if isinstance(data, Tensor) and len(data) >= LEAST:
        return Sight(data[1::2], data, data[::2])
    if is_pair(data) and len(data[0]) >= LEAST:
        return Sight((data[0][1::2], data[1][1::2]), data, (data[0][::2], data[1][::2]))
    if data is not None and not isinstance(data, str):
        return Sight(data, data)
    try:
        noise = torch.cat(list(_probes(request)))
    except (TypeError, ValueError):
        if data is not None:
            raise
        return None
    if data == NOISE or not noise.is_floating_point() or not _dreams_are_sound(request):
        return Sight(noise, noise, drawn=True)
    x = replace(request, data=DREAMS, samples=2 * (request.samples or PROBES)).dreamed().data
    wide = sum(group.size**2 for group in request.graphs()[0].spec.free) > WIDEST
    return Sight(x[1::2], noise, None if wide else x[::2], drawn=True)


def _probes(request: Request) -> Iterator[Tensor]:
    kind = NOISE if request.data in (None, DREAMS) else request.data
    return probes(request.a, kind, request.example_input, request.samples or PROBES, request.fork().generator)


def _dreams_are_sound(request: Request) -> bool:
    """Whether permutations that are optimised on dreams are better on data, too.

    They are where dense layers read the inputs. Convolutions, patches and recurrent cells dream of every place and time
    by itself, which data never is, and BatchNorm's statistics are those of the data; noise does as well there.
    """
    layers = first_layers(request.a, request.graphs()[0].spec)
    return bool(layers) and all(isinstance(m, nn.Linear) for m in layers) and not _norms(request.a)


def _unjudged(request: Request, method: str) -> Alignment:
    found = run(method, _without(request))
    return found.replace(candidates=[Candidate(method, None, found.elapsed, kept=True)])


def _run(
    method: str, known: Mapping[str, Alignment], request: Request, sight: Sight, loss: Loss, output: Output
) -> Alignment:
    """A candidate; one that starts from another takes what that one has found."""
    asked, options = _without(request), {}
    before, _, last = method.rpartition("+")
    start = known.get(before)
    if method == "activation_matching":
        asked = replace(asked, data=sight.matched)
    elif last == OPTIMISED:
        asked = replace(asked, data=sight.optimised)
        options = {"iterations": ITERATIONS, "loss": loss, "output": output}
    with quiet():  # a group that one candidate cannot see is no concern of the user's
        if start is None:
            return run(method, asked, **options)
        found = run(last, replace(asked, init=start), **options)
        return found.replace(method=method, elapsed=start.elapsed + found.elapsed)


def _without(request: Request) -> Request:
    return replace(request.fork(), data=None, samples=None)


def _judge(request: Request, sight: Sight, loss: Loss, output: Output) -> Judge:
    """Loss half way between a and a permuted b, BatchNorm's statistics measured on what there is."""
    norms = _norms(request.a)
    first, second = request.a, request.b
    if norms and sight.drawn:
        # Noise has other statistics than data. All three networks are to be asked with those of the noise.
        first, second = (reset_batchnorm(shell(m), None, sight.judged) for m in (first, second))
    data, own = answered(first, second, sight.judged, loss, output=output)
    a, b, template = tensors_of(first), tensors_of(second), shell(first).eval()

    def judge(permutation: Permutation) -> float:
        middle: dict[str, Tensor] = interpolate(a, permutation.apply(b), 0.5)
        if norms:
            middle = tensors_of(reset_batchnorm(template, middle, data))
        return float(evaluate(template, [middle], own, data, output)[0])

    return judge


def _norms(network: nn.Module) -> bool:
    return any(isinstance(m, _BatchNorm) and m.track_running_stats for m in network.modules())
