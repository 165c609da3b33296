"""What aligners take for a network, and what they say to anything else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from wsgraph import Spec, WeightGraph, to_graph
from wsgraph.checkpoints import AnyPath, opened
from wsgraph.modules import tensors_of, with_tensors

N = TypeVar("N", bound=nn.Module | WeightGraph)

Tensors = dict[str, Tensor]
"""A state dict, or several as one with a leading axis of networks."""
NetworkLike = nn.Module | WeightGraph | Mapping[str, Tensor] | AnyPath
"""What may be passed for a network; a path is that of a checkpoint (see :mod:`wsgraph.checkpoints`)."""


def as_graph(network: NetworkLike, example_input: Tensor | None = None, spec: Spec | None = None) -> WeightGraph:
    """The WeightGraph of a module or a state dict, or the graph itself."""
    return network if isinstance(network, WeightGraph) else to_graph(network, example_input, spec=spec)


def read_state_dicts(
    networks: Iterable[NetworkLike], example_input: Tensor | None = None, spec: Spec | None = None
) -> list[Any]:
    """The networks, paths opened; state dicts as graphs, with the Spec of a network that is not one where that fits."""
    networks = [opened(network) for network in networks]
    known: Spec | None = None
    if spec is None and any(isinstance(n, Mapping) for n in networks):
        known = next((as_graph(n, example_input).spec for n in networks if not isinstance(n, Mapping)), None)
    for k, network in enumerate(networks):
        if isinstance(network, Mapping):
            networks[k] = graph = to_graph(network, spec=spec or _fitting(known, network))
            known = known or graph.spec
    return networks


def _fitting(spec: Spec | None, tensors: Mapping[str, Tensor]) -> Spec | None:
    try:
        if spec is not None:
            spec.check(tensors)
    except (ValueError, TypeError):  # other widths, to be read off its own tensors
        return None
    return spec


def in_one_dtype(a: N, b: N) -> tuple[N, N]:
    """Two networks, modules or graphs, in the wider of their dtypes: the same ones, unless these differ.

    What is no network is for others to complain of.
    """
    kinds = [_dtype_of(network) for network in (a, b)]
    if None in kinds or kinds[0] == kinds[1]:
        return a, b
    wide = torch.promote_types(*kinds)  # type: ignore[arg-type]
    return _converted(a, wide), _converted(b, wide)


def _dtype_of(network: Any) -> torch.dtype | None:
    if not isinstance(network, nn.Module | WeightGraph):
        return None
    tensors = network.tensors if isinstance(network, WeightGraph) else tensors_of(network)
    return next((t.dtype for t in tensors.values() if t.is_floating_point()), None)


def _converted(network: Any, dtype: torch.dtype) -> Any:
    """A copy, which shares what is of that dtype already."""
    graph = isinstance(network, WeightGraph)
    tensors = network.tensors if graph else tensors_of(network)
    tensors = {name: t.to(dtype) if t.is_floating_point() else t for name, t in tensors.items()}
    return network.replace(tensors) if graph else with_tensors(network, tensors).to(dtype)


def require_modules(why: str, networks: Iterable[object]) -> None:
    """Raise unless all networks are modules, with how to get one from what was passed."""
    for network in networks:
        if not isinstance(network, nn.Module):
            raise TypeError(
                f"{why}: pass modules, got {type(network).__name__}; load a state dict into one by "
                "model.load_state_dict(state_dict), make one of a graph by graph.to_module(model)"
            )
