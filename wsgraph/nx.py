"""A WeightGraph for networkx."""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx as nx

if TYPE_CHECKING:
    from .graph import WeightGraph


def to_networkx(graph: WeightGraph) -> nx.MultiDiGraph:
    """See :meth:`wsgraph.WeightGraph.to_networkx`."""
    out, spec, offsets = nx.MultiDiGraph(), graph.spec, graph.offsets
    for layer, (name, group) in enumerate(spec.groups.items()):
        for i in range(group.size):
            out.add_node(offsets[name] + i, name=f"{name}[{i}]", group=name, layer=layer, pinned=group.pinned)
    for block, view in graph.blocks:
        if block.source is None and spec.params[block.param].role != "weight":
            continue
        values = view.detach().cpu().tolist()
        for run, rows in enumerate(values if block.runs > 1 else [values]):
            for i, row in enumerate(rows, run * len(rows)):
                sources = [(i, row)] if block.source is None else enumerate(row, run * len(row))
                for j, taps in sources:
                    source = offsets[block.source or block.target] + j
                    out.add_edge(source, offsets[block.target] + i, param=block.param, weight=sum(taps), taps=taps)
    return out
