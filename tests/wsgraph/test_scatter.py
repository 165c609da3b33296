"""The flat edges of a WeightGraph, aggregated by the optional torch_scatter."""

import pytest
import torch
from torch import nn

from wsgraph import to_graph

pytestmark = pytest.mark.scatter


def test_scatter_over_edges_computes_the_layer() -> None:
    torch_scatter = pytest.importorskip("torch_scatter")
    layer = nn.Linear(5, 3, dtype=torch.float64)
    graph = to_graph(layer)
    inputs = torch.randn(5, dtype=torch.float64)
    source, target = graph.edge_index
    h = torch.cat([inputs, torch.zeros(3, dtype=torch.float64)])  # nodes: inputs, then outputs
    messages = graph.edge_attr[:, 0] * h[source]
    received = torch_scatter.scatter(messages, target, dim_size=graph.num_nodes)
    torch.testing.assert_close(received[5:] + graph.x[5:, 0], layer(inputs))
