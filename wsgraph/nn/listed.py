"""Messages along a list of edges, for pruned networks: PyG's message passing."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

from .message import fold, mix_states, on_basis
from .segment import segment_sum


class ListedEdges:
    """Listed pairs only, for pruned networks.

    Args:
        index: ``[2, E]``: source and target of each edge inside their groups, sorted by target.
        taps: ``[E, t]``.
        basis: ``[t, b]``.
        sizes: Number of source and of target nodes.
    """

    def __init__(self, index: Tensor, taps: Tensor, basis: Tensor, sizes: tuple[int, int]) -> None:
        self.weights, self.basis = on_basis(taps, basis)
        self.index, self.sizes = index, sizes
        self.by_source = torch.argsort(index[0], stable=True)

    def forward(self, h: Tensor, mix: Tensor) -> Tensor:
        mixed = mix_states(h, fold(self.basis, mix))
        return _SEND(mixed, self.weights, self.index, self.sizes)

    def backward(self, h: Tensor, mix: Tensor) -> Tensor:
        mixed = mix_states(h, fold(self.basis, mix))
        order = self.by_source
        return _SEND(mixed, self.weights[order], self.index[:, order].flip(0), self.sizes[::-1])


class _Send(MessagePassing):
    """Σ over listed edges of weight times mixed source state; edges are sorted by where they arrive."""

    def __init__(self) -> None:
        super().__init__(aggr="sum", node_dim=0)

    def forward(self, mixed: Tensor, weights: Tensor, index: Tensor, sizes: tuple[int, int]) -> Tensor:
        return self.propagate(index, x=(mixed, None), weights=weights, size=sizes)

    def message(self, x_j: Tensor, weights: Tensor) -> Tensor:
        return torch.einsum("ebm,eb->em", x_j, weights)

    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int) -> Tensor:
        return segment_sum(inputs, index, dim_size)


_SEND = _Send()
