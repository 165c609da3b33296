"""Every aligner by one call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from wsgraph import Permutation, Spec, WeightGraph
from wsgraph.modules import with_tensors
from wsgraph.randomness import seeded

from .alignment import Alignment
from .deep_align import DeepAlign
from .merging.scale import match_scale
from .methods.activation_matching import activation_matching
from .methods.sinkhorn import sinkhorn_rebasin
from .methods.ste import straight_through
from .methods.weight_matching import weight_matching
from .running.batches import Samples, require_samples
from .running.networks import NetworkLike, as_graph, read_state_dicts, require_modules


@dataclass(frozen=True)
class _Call:
    """What a method may need besides the two networks."""

    a: Any
    b: Any
    init: Alignment | None
    data: Samples
    samples: int | None
    example_input: Tensor | None
    spec: Spec | None
    generator: torch.Generator
    aligner: DeepAlign | None

    @property
    def tracing(self) -> dict[str, Any]:
        """What methods pass on to ``to_graph``."""
        return {"example_input": self.example_input, "spec": self.spec}

    def graphs(self) -> tuple[WeightGraph, WeightGraph]:
        return as_graph(self.a, **self.tracing), as_graph(self.b, **self.tracing)

    def require_data(self, method: str, hint: str) -> Samples:
        if self.data is None:
            raise ValueError(f"{method} needs data: pass {hint}")
        return self.data


def _identity(c: _Call) -> Alignment:
    a, b = c.graphs()
    a.spec.require_same(b.spec)
    return Alignment(a, b, maps=Permutation.identity(a.spec).maps, method="identity")


def _weight_matching(c: _Call, **options: Any) -> Alignment:
    init = c.init.permutation if c.init is not None else None
    return weight_matching(*c.graphs(), init=init, generator=c.generator, **options)


def _activation_matching(c: _Call, **options: Any) -> Alignment:
    data = c.require_data("activation_matching", "data=inputs, data=(inputs, targets), a loader, or data='noise'")
    return activation_matching(c.a, c.b, data=data, samples=c.samples, generator=c.generator, **c.tracing, **options)


def _sinkhorn(c: _Call, **options: Any) -> Alignment:
    return sinkhorn_rebasin(c.a, c.b, data=c.data, init=c.init, generator=c.generator, **c.tracing, **options)


def _ste(c: _Call, **options: Any) -> Alignment:
    data = c.require_data("ste", "data=(inputs, targets) or a loader of such pairs")
    return straight_through(c.a, c.b, data=data, init=c.init, generator=c.generator, **c.tracing, **options)


def _deep_align(c: _Call) -> Alignment:
    a, b = c.graphs()
    if c.aligner is not None:
        return c.aligner(a, b)
    with _READING:
        aligner = _pretrained(a.network.like.device, torch.get_default_dtype())
    return aligner(a, b)


_READING = Lock()  # whoever comes first reads the pretrained aligner, and the other threads wait


@cache
def _pretrained(device: torch.device, dtype: torch.dtype) -> DeepAlign:
    """The pretrained aligner, read once; nobody else gets hold of it, so it stays where it is and in eval mode."""
    return DeepAlign().to(device, dtype)


METHODS: dict[str, Callable[..., Alignment]] = {
    "identity": _identity,
    "weight_matching": _weight_matching,
    "activation_matching": _activation_matching,
    "ste": _ste,
    "sinkhorn": _sinkhorn,
    "deep_align": _deep_align,
}
"""Every aligner by name; names joined by ``+`` start from one another's result."""
_FUNCTIONS: dict[str, Callable[..., Alignment]] = {
    "weight_matching": weight_matching,
    "activation_matching": activation_matching,
    "ste": straight_through,
    "sinkhorn": sinkhorn_rebasin,
}
SCALE_TURNS = 10
"""Matches and rescalings that ``scale=True`` takes turns at before it gives up."""
RUNNING = ("activation_matching", "ste")
"""Methods that always run the networks, so that they need modules."""
STARTABLE = ("weight_matching", "ste", "sinkhorn")
"""Methods that can start from another one's result."""


def match(
    a: NetworkLike,
    b: NetworkLike,
    method: str = "weight_matching",
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
        a: The reference: a module, its WeightGraph, or its state dict (see :func:`wsgraph.to_graph`).
        b: The network to permute, of the same architecture.
        method: One of :data:`METHODS`, or several joined by ``+``: each starts from the result of the one before, as in
            ``"weight_matching+sinkhorn"``.
        data: For methods that run the networks: inputs, pairs (inputs, targets), a loader, or ``"noise"``.
        samples: How many inputs ``data="noise"`` draws; 5000 when omitted, fewer are faster where networks are costly.
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
    names = method.split("+")
    for k, name in enumerate(names):
        if name not in METHODS:
            raise ValueError(f"no method '{name}'; choose among {list(METHODS)}, or join several by '+'")
        if k > 0 and name not in STARTABLE:
            raise ValueError(f"'{name}' starts from scratch, so nothing can come before it; {list(STARTABLE)} can")
        if name in RUNNING:
            require_modules(f"{name} runs the networks", (a, b))
    _require_options(names[-1], options)
    require_samples(data, samples)
    generator = generator or seeded(seed)
    a, b = read_state_dicts((a, b), example_input, spec)
    common = (data, samples, example_input, spec, generator, aligner)
    if scale:
        return _with_scale(a, b, names, common, options)
    return _chain(a, b, names, common, options)


def _require_options(method: str, options: dict[str, Any]) -> None:
    """Raise if the method has no such option, naming those it has."""
    given = {f.name for f in fields(_Call)}
    taken = inspect.signature(_FUNCTIONS[method]).parameters if method in _FUNCTIONS else ()
    known = [name for name in taken if name not in given]
    for name in options:
        if name not in known:
            common = [p.name for p in inspect.signature(match).parameters.values() if p.kind is p.KEYWORD_ONLY]
            raise TypeError(
                f"'{method}' has no option '{name}'; it has {known or 'none'}, and match itself takes {common}"
            )


def _chain(a: Any, b: Any, names: list[str], common: tuple[Any, ...], options: dict[str, Any]) -> Alignment:
    """Run methods one after the other, each from the result of the one before."""
    found: Alignment | None = None
    elapsed = 0.0
    for k, name in enumerate(names):
        call = _Call(a, b, found, *common)
        found = METHODS[name](call, **(options if k == len(names) - 1 else {}))
        elapsed += found.elapsed
    assert found is not None
    found.method, found.elapsed = "+".join(names), elapsed
    return found


def _with_scale(a: Any, b: Any, names: list[str], common: tuple[Any, ...], options: dict[str, Any]) -> Alignment:
    """Match, rescale the permuted b to a, match again, until the permutation rests."""
    left, right = _Call(a, b, None, *common).graphs()
    now, total, elapsed = right, Permutation.identity(right.spec), 0.0
    for turn in range(SCALE_TURNS):
        network = now if isinstance(b, WeightGraph) else with_tensors(b, now.tensors)
        found = _chain(a, network, names, common, options)
        elapsed += found.elapsed
        total = found.permutation @ total
        rests = turn > 0 and found.permutation == Permutation.identity(right.spec)
        if rests:
            break
        now = match_scale(left, found.permutation.apply(now))
    return Alignment(left, right, None, total.maps, "+".join(names), elapsed, found.converged and rests)
