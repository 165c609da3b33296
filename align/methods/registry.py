"""Every aligner by name, and how it is called; anybody can register one more.

A method is a function of two networks that returns an :class:`~align.Alignment`. It names in its signature what it
wants to know of the :class:`Request`; all its other parameters are options, and need defaults::

    def by_norm(a, b, *, example_input=None, spec=None, power=2.0):
        ...

    register(Method("by_norm", by_norm))
    align.match(a, b, "by_norm+weight_matching")
    align.match(a, b, "by_norm", power=1.0)

One that calls other methods asks for the whole ``request``, and passes it on by :func:`run`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from wsgraph import Spec, WeightGraph
from wsgraph.randomness import seeded

from ..alignment import Alignment
from ..running.batches import Samples, require_samples
from ..running.dreams import DREAMS, dreams
from ..running.fitting import require_fitting
from ..running.networks import as_graph, require_modules
from ..running.pictures import PICTURES, pictures_for

OPTIONAL = ("data", "samples", "aligner")
"""Parts of a request that are refused where no method takes them; all others concern every method."""
WHOLE = "request"
"""The parameter that gets the request itself."""


@dataclass(frozen=True)
class Request:
    """What :func:`align.match` is asked, and what a method may take as a parameter of that name.

    Attributes:
        a: The reference: a module or a WeightGraph.
        b: The network to permute, likewise.
        init: The result of the method before, to start from.
        data: Samples to run the networks on.
        samples: How many inputs ``data="noise"``, ``"dreams"`` and ``"pictures"`` draw.
        example_input: Needed where the input's shape cannot be inferred.
        spec: The symmetry of both; traced when omitted.
        generator: Of everything drawn.
        aligner: A learned aligner in place of the pretrained one.
    """

    a: Any
    b: Any
    init: Alignment | None = None
    data: Samples = None
    samples: int | None = None
    example_input: Tensor | None = None
    spec: Spec | None = None
    generator: torch.Generator = field(default_factory=seeded)
    aligner: Any = None

    def graphs(self) -> tuple[WeightGraph, WeightGraph]:
        """Both networks as graphs."""
        a, b = (as_graph(network, self.example_input, self.spec) for network in (self.a, self.b))
        return a, b

    def dreamed(self) -> Request:
        """The same with inputs for data that is a dream (:mod:`align.running.dreams`), or made-up pictures."""
        if not (isinstance(self.data, str) and self.data in (DREAMS, PICTURES)):
            return self
        require_modules(f"only what runs has use for data={self.data!r}", (self.a, self.b))
        drawn = self.example_input, self.samples, self.fork().generator
        dreamed = self.data == DREAMS
        found = dreams((self.a, self.b), self.graphs()[0].spec, *drawn) if dreamed else pictures_for(self.a, *drawn)
        return replace(self, data=found, samples=None)

    def fork(self) -> Request:
        """The same with a generator of its own, so that methods tried one after the other draw the same numbers."""
        own = torch.Generator(self.generator.device)
        own.set_state(self.generator.get_state())
        return replace(self, generator=own)


PARTS = tuple(part.name for part in fields(Request))


@dataclass(frozen=True)
class Method:
    """An aligner.

    Attributes:
        name: As in ``align.match(a, b, name)``.
        function: Called with those parts of the :class:`Request` that its signature names, and with options.
        needs_data: Whether it cannot do without ``data``.
        needs_modules: Whether it always runs the networks, so that graphs and state dicts are not enough.
        startable: Whether it can start from another one's result, which it takes as ``init``.
    """

    name: str
    function: Callable[..., Alignment]
    needs_data: bool = False
    needs_modules: bool = False
    startable: bool = False

    def __post_init__(self) -> None:
        if not self.name or "+" in self.name:
            raise ValueError(f"a method cannot be called {self.name!r}: names are not empty, and '+' joins them")
        for name, parameter in self._parameters.items():
            named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            if not named or (parameter.default is parameter.empty and name not in (*PARTS, WHOLE)):
                raise TypeError(
                    f"method '{self.name}': its function's parameter '{name}' is no part of a request ({list(PARTS)}, "
                    f"or '{WHOLE}' for all of it), so it must be an option, with a name and a default"
                )
        for flag, part in ((self.needs_data, "data"), (self.startable, "init")):
            if flag and part not in self.takes:
                raise TypeError(f"method '{self.name}' needs {part}, so its function must have a parameter '{part}'")

    @property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.function).parameters

    @property
    def takes(self) -> tuple[str, ...]:
        """Parts of the request that it uses."""
        named = self._parameters
        return PARTS if WHOLE in named else tuple(part for part in PARTS if part in named)

    @property
    def options(self) -> tuple[str, ...]:
        """Its own arguments."""
        return tuple(name for name in self._parameters if name not in (*PARTS, WHOLE))

    def __call__(self, request: Request, **options: Any) -> Alignment:
        asked = request.dreamed() if "data" in self._parameters else request
        known = {part: getattr(asked, part) for part in PARTS} | {WHOLE: request}
        return self.function(**{name: known[name] for name in self._parameters if name in known}, **options)


_METHODS: dict[str, Method] = {}
METHODS: Mapping[str, Method] = MappingProxyType(_METHODS)
"""Every aligner by name; names joined by ``+`` start from one another's result."""


def register(method: Method, replace: bool = False) -> Method:
    """Let :func:`align.match` know a method by its name.

    Args:
        method: The method.
        replace: Whether it may take the place of another of that name.
    """
    if method.name in METHODS and not replace:
        raise ValueError(f"there is a method '{method.name}' already; choose another name, or pass replace=True")
    _METHODS[method.name] = method
    return method


def methods_of(chain: str) -> list[Method]:
    """The methods that a name stands for, several where it is joined by ``+``; raise unless they can follow so."""
    found: list[Method] = []
    for name in chain.split("+"):
        if name not in METHODS:
            raise ValueError(f"no method '{name}'; choose among {list(METHODS)}, or join several by '+'")
        if found and not METHODS[name].startable:
            able = [method.name for method in METHODS.values() if method.startable]
            raise ValueError(f"'{name}' starts from scratch, so nothing can come before it; {able} can")
        found.append(METHODS[name])
    return found


def takes(chain: str, part: str) -> bool:
    """Whether a method, or one of those joined by ``+``, uses that part of a request.

    >>> takes("weight_matching", "data"), takes("weight_matching+sinkhorn", "data")
    (False, True)
    """
    return any(part in method.takes for method in methods_of(chain))


def run(chain: str, request: Request, **options: Any) -> Alignment:
    """The answer of a method; of several joined by ``+``, each from the result of the one before.

    Args:
        chain: One of :data:`METHODS`, or several.
        request: What is asked.
        options: Arguments of the (last) method itself.
    """
    methods = methods_of(chain)
    found, elapsed = request.init, 0.0
    for k, method in enumerate(methods):
        found = method(replace(request, init=found), **(options if k == len(methods) - 1 else {}))
        elapsed += found.elapsed
    assert found is not None
    return found.replace(method=chain, elapsed=elapsed)


def require_request(chain: str, request: Request, options: Mapping[str, Any], common: Sequence[str]) -> None:
    """Raise if methods lack what they need, or if something is given that none of them uses.

    Args:
        chain: The methods.
        request: What is asked.
        options: Arguments of the last one.
        common: Arguments of the function that was called, to be named beside those of the method.
    """
    methods = methods_of(chain)
    for part in OPTIONAL:
        if getattr(request, part) is not None and not takes(chain, part):
            users = [method.name for method in METHODS.values() if part in method.takes]
            raise TypeError(f"'{chain}' does not use {part}=, {users} do; leave it out or choose one of them")
    require_samples(request.data, request.samples)
    require_fitting(request.a, request.data)
    for method in methods:
        if method.needs_modules:
            require_modules(f"{method.name} runs the networks", (request.a, request.b))
        if method.needs_data and request.data is None:
            noise = "data=inputs, data=(inputs, targets), a loader, data='noise', 'dreams' or 'pictures'"
            hint = noise if "samples" in method.takes else "data=(inputs, targets) or a loader of such pairs"
            raise ValueError(f"{method.name} needs data: pass {hint}")
    for name in options:
        if name not in (known := methods[-1].options):
            raise TypeError(
                f"'{methods[-1].name}' has no option '{name}'; it has {list(known) or 'none'}, and match itself takes "
                f"{list(common)}"
            )
