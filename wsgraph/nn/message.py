r"""One message, two executions.

Along the edges of a block with weights :math:`\tilde w_{jib}` (target j, source i, basis function b) a node receives

.. math:: m_j = \sum_b \sum_i \tilde w_{jib}\, A_b h_i \quad\text{(forward)}, \qquad
          m_i = \sum_b \sum_j \tilde w_{jib}\, A'_b h_j \quad\text{(backward)},

which is linear in the weights. Over a dense block that is a matrix product and no per-edge state exists
(:class:`DenseEdges`); over a list of edges it is PyG message passing (:class:`~wsgraph.nn.listed.ListedEdges`), whose
cost is proportional to the edges that are there.

The taps are projected on the basis where there are more taps than basis functions; otherwise the basis is folded into
A, which gives the same sum without touching the weights.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Edges(Protocol):
    """The weights of one block of one or several networks, ready for messages."""

    def forward(self, h: Tensor, mix: Tensor) -> Tensor:
        """Messages along the edges: ``[..., source, C]`` and ``[b, C, M]`` → ``[..., target, M]``."""
        ...

    def backward(self, h: Tensor, mix: Tensor) -> Tensor:
        """Messages against them: ``[..., target, C]`` and ``[b, C, M]`` → ``[..., source, M]``."""
        ...


def on_basis(taps: Tensor, basis: Tensor) -> tuple[Tensor, Tensor | None]:
    """Weights as the messages use them, and what is left to fold into the mixing matrices.

    Args:
        taps: ``[..., t]``.
        basis: ``[t, b]``.
    """
    if basis.shape[0] > basis.shape[1]:
        return taps @ basis, None
    return taps, basis


def fold(basis: Tensor | None, mix: Tensor) -> Tensor:
    """``[b, C, M]`` for projected weights, ``[t, C, M]`` for raw taps."""
    return mix if basis is None else torch.einsum("tb,bcm->tcm", basis, mix)


def mix_states(h: Tensor, mix: Tensor) -> Tensor:
    """A_b h for all b in one product: ``[..., n, C]`` and ``[b, C, M]`` → ``[..., n, b, M]``."""
    return (h @ mix.transpose(0, 1).flatten(1)).unflatten(-1, (mix.shape[0], mix.shape[2]))


class DenseEdges:
    """All pairs of two groups.

    Args:
        taps: ``[..., target, source, t]``.
        basis: ``[t, b]``.
    """

    def __init__(self, taps: Tensor, basis: Tensor) -> None:
        self.weights, self.basis = on_basis(taps, basis)

    def forward(self, h: Tensor, mix: Tensor) -> Tensor:
        mixed = mix_states(h, fold(self.basis, mix))  # small: [..., source, b, M]
        return self.weights.flatten(-2) @ mixed.flatten(-3, -2)

    def backward(self, h: Tensor, mix: Tensor) -> Tensor:
        gathered = self.weights.flatten(-2).mT @ h  # [..., source × b, C]
        return gathered.unflatten(-2, self.weights.shape[-2:]).flatten(-2) @ fold(self.basis, mix).flatten(0, 1)


class RunEdges:
    """All pairs inside every run of two groups: convolutions with groups.

    Args:
        taps: ``[..., runs, target, source, t]``.
        basis: ``[t, b]``.
    """

    def __init__(self, taps: Tensor, basis: Tensor) -> None:
        self.inside, self.runs = DenseEdges(taps, basis), taps.shape[-4]

    def forward(self, h: Tensor, mix: Tensor) -> Tensor:
        return self.inside.forward(h.unflatten(-2, (self.runs, -1)), mix).flatten(-3, -2)

    def backward(self, h: Tensor, mix: Tensor) -> Tensor:
        return self.inside.backward(h.unflatten(-2, (self.runs, -1)), mix).flatten(-3, -2)


class OwnEdges:
    """Every node with itself: depthwise kernels.

    Args:
        taps: ``[..., target, t]``.
        basis: ``[t, b]``.
    """

    def __init__(self, taps: Tensor, basis: Tensor) -> None:
        self.weights, self.basis = on_basis(taps, basis)

    def forward(self, h: Tensor, mix: Tensor) -> Tensor:
        return (self.weights.unsqueeze(-2) @ mix_states(h, fold(self.basis, mix))).squeeze(-2)

    backward = forward
