"""Networks on graphs, of ``torch_geometric``: twelve nodes, thirty edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

NODES, EDGES, FEATURES = 12, 30, 6


def _basic(name: str, **settings: Any) -> nn.Module:
    from torch_geometric.nn import models

    return getattr(models, name)(FEATURES, 16, 2, 3, **settings)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "GCN": lambda: _basic("GCN"),
    "GraphSAGE": lambda: _basic("GraphSAGE"),
    "GIN": lambda: _basic("GIN"),
    "GAT (4 heads)": lambda: _basic("GAT", heads=4),
    "EdgeCNN": lambda: _basic("EdgeCNN"),
    "PNA": lambda: _basic("PNA", aggregators=["mean", "max"], scalers=["identity"], deg=torch.ones(8).long()),
}


def graph_model(name: str) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """A network with three classes for each node; features and edges of a graph."""
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(NODES, FEATURES, generator=draw)
    return NETWORKS[name]().eval(), (features, torch.randint(NODES, (2, EDGES), generator=draw))
