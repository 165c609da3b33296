"""What aligners take for a network, and what they say to anything else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from wsgraph import Spec, WeightGraph, to_graph
from wsgraph.checkpoints import AnyPath, opened

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
    """The networks, paths opened; state dicts as graphs, of the first other network's kind where that fits.

    So they have that network's Spec, and can be run where it can.
    """
    networks = [opened(network) for network in networks]
    known: WeightGraph | None = None
    if any(isinstance(n, Mapping) for n in networks):
        known = next((as_graph(n, example_input, spec) for n in networks if not isinstance(n, Mapping)), None)
    for k, network in enumerate(networks):
        if isinstance(network, Mapping):
            like = known if known is not None and _fits(known.spec, network) else None
            graph = to_graph(network, spec=spec if like is None else like.spec)
            networks[k] = graph if like is None else like.replace(graph.tensors)
            known = graph if known is None else known
    return networks


def _fits(spec: Spec, tensors: Mapping[str, Tensor]) -> bool:
    try:
        spec.check(tensors)
    except (KeyError, ValueError):  # another architecture, to be read off its own tensors
        return False
    return True


def require_modules(why: str, networks: Iterable[object]) -> None:
    """Raise unless all networks are modules, with how to get one from what was passed."""
    for network in networks:
        if not isinstance(network, nn.Module):
            raise TypeError(
                f"{why}: pass modules, got {type(network).__name__}; load a state dict into one by "
                "model.load_state_dict(state_dict), make one of a graph by graph.to_module(model)"
            )
