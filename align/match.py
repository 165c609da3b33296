"""Every aligner behind one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from wsgraph import Permutation, WeightGraph, to_graph
from wsgraph.modules import with_tensors

from .alignment import Alignment
from .batches import Data
from .deep_align import DeepAlign
from .methods.activation_matching import activation_matching
from .methods.sinkhorn import sinkhorn_rebasin
from .methods.ste import straight_through
from .methods.weight_matching import weight_matching
from .scale import match_scale

Network = nn.Module | WeightGraph


@dataclass(frozen=True)
class _Call:
    """What a method may need besides the two networks."""

    a: Network
    b: Network
    data: Data
    init: Alignment | None
    example_input: Tensor | None
    generator: torch.Generator | None
    aligner: DeepAlign | None

    def graphs(self) -> tuple[WeightGraph, WeightGraph]:
        return as_graph(self.a, self.example_input), as_graph(self.b, self.example_input)

    def modules(self, method: str) -> tuple[nn.Module, nn.Module]:
        for network in (self.a, self.b):
            if not isinstance(network, nn.Module):
                raise TypeError(f"{method} runs the networks: pass modules, got {type(network).__name__}")
        return self.a, self.b

    def require_data(self, method: str, hint: str) -> Data:
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
    a, b = c.modules("activation_matching")
    data = c.require_data("activation_matching", "data=inputs, data=(inputs, targets), a loader, or data='noise'")
    return activation_matching(a, b, data=data, example_input=c.example_input, generator=c.generator, **options)


def _sinkhorn(c: _Call, **options: Any) -> Alignment:
    return sinkhorn_rebasin(
        c.a, c.b, data=c.data, init=c.init, example_input=c.example_input, generator=c.generator, **options
    )


def _ste(c: _Call, **options: Any) -> Alignment:
    a, b = c.modules("ste")
    data = c.require_data("ste", "data=(inputs, targets) or a loader of such pairs")
    return straight_through(
        a, b, data=data, init=c.init, example_input=c.example_input, generator=c.generator, **options
    )


def _deep_align(c: _Call) -> Alignment:
    a, b = c.graphs()
    return (c.aligner or DeepAlign().to(a.network.like.device))(a, b)


METHODS: dict[str, Callable[..., Alignment]] = {
    "identity": _identity,
    "weight_matching": _weight_matching,
    "activation_matching": _activation_matching,
    "ste": _ste,
    "sinkhorn": _sinkhorn,
    "deep_align": _deep_align,
}
"""Every aligner by name; names joined by ``+`` start from one another's result."""
SCALE_TURNS = 10
"""Matches and rescalings that ``scale=True`` takes turns at before it gives up."""
STARTABLE = ("weight_matching", "ste", "sinkhorn")
"""Methods that can start from another one's result."""


def match(
    a: Network,
    b: Network,
    method: str = "weight_matching",
    *,
    data: Data = None,
    example_input: Tensor | None = None,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    aligner: DeepAlign | None = None,
    scale: bool = False,
    **options: Any,
) -> Alignment:
    """Find how network b must be permuted to match network a.

    Args:
        a: The reference: a module or its WeightGraph.
        b: The network to permute, of the same architecture.
        method: One of :data:`METHODS`, or several joined by ``+``: each starts from the result of the one before, as in
            ``"weight_matching+sinkhorn"``.
        data: For methods that run the networks: inputs, pairs (inputs, targets), a loader, or ``"noise"``.
        example_input: Needed where the input's shape cannot be inferred.
        seed: Makes the result reproducible; or pass a ``generator``.
        aligner: The learned aligner that ``deep_align`` uses, in place of the default one.
        scale: Take turns with rescaling b's neurons to those of a (see :func:`align.scale.match_scale`), so that the
            scale symmetry of ReLU networks does not mislead the match. The answer is still a permutation of b itself;
            ``align.merge(..., scale=True)`` rescales as well.
        options: Arguments of the (last) method itself.

    Example:
        >>> import torch, align
        >>> from torch import nn
        >>> a, b = (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)) for _ in range(2))
        >>> b = align.match(a, b).apply(b)
    """
    names = method.split("+")
    for k, name in enumerate(names):
        if name not in METHODS:
            raise ValueError(f"no method '{name}'; choose among {list(METHODS)}, or join several by '+'")
        if k > 0 and name not in STARTABLE:
            raise ValueError(f"'{name}' starts from scratch, so nothing can come before it; {list(STARTABLE)} can")
    if generator is None and seed is not None:
        generator = torch.Generator().manual_seed(seed)
    common = (data, example_input, generator, aligner)
    if scale:
        return _with_scale(a, b, names, common, options)
    return _chain(a, b, names, common, options)


def _chain(a: Network, b: Network, names: list[str], common: tuple[Any, ...], options: dict[str, Any]) -> Alignment:
    """Run methods one after the other, each from the result of the one before."""
    data, example_input, generator, aligner = common
    found: Alignment | None = None
    elapsed = 0.0
    for k, name in enumerate(names):
        call = _Call(a, b, data, found, example_input, generator, aligner)
        found = METHODS[name](call, **(options if k == len(names) - 1 else {}))
        elapsed += found.elapsed
    assert found is not None
    found.method, found.elapsed = "+".join(names), elapsed
    return found


def _with_scale(
    a: Network, b: Network, names: list[str], common: tuple[Any, ...], options: dict[str, Any]
) -> Alignment:
    """Match, rescale the permuted b to a, match again, until the permutation rests."""
    left, right = (as_graph(n, common[1]) for n in (a, b))
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


def as_graph(network: Network, example_input: Tensor | None = None) -> WeightGraph:
    """The WeightGraph of a module, or the graph itself."""
    return network if isinstance(network, WeightGraph) else to_graph(network, example_input)
