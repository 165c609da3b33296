"""One layer of the encoder: a sweep forward over the blocks in order of execution, and a sweep back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ..network import NODE_ROLES
from .prepare import PreparedStep

PRIOR = 4
ACTIVATIONS = {"silu": nn.SiLU, "gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh}


class Update(nn.Module):
    r"""What a node makes of a message: :math:`h' = h + U\,\sigma(V_h\,\mathrm{norm}(h) + V_m m + V_p p + t)`.

    Args:
        hidden: Channels of a node's state h.
        messages: Channels of a message m.
        activation: σ.
        normalise: Whether h is layer-normalised (per node, so equivariant).
        params: Whether there are features p of one-axis parameters.

    Shapes:
        - **h:** ``[..., n, hidden]``; **m:** ``[..., n, messages]``; **p:** ``[..., n, roles]`` or ``None``
        - **kind:** ``[hidden]``, the embedding t of the function that follows the group
        - **output:** ``[..., n, hidden]``
    """

    def __init__(self, hidden: int, messages: int, activation: str, normalise: bool, params: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden) if normalise else nn.Identity()
        self.state = nn.Linear(hidden, hidden, bias=False)
        self.message = nn.Linear(messages, hidden, bias=False)
        self.params = nn.Linear(len(NODE_ROLES), hidden, bias=False) if params else None
        self.activation = ACTIVATIONS[activation]()
        self.out = nn.Linear(hidden, hidden)

    def forward(self, h: Tensor, m: Tensor, kind: Tensor, p: Tensor | None = None) -> Tensor:
        z = linear(self.norm(h), self.state.weight, kind) + self.message(m)
        if p is not None and self.params is not None:
            z = z + self.params(p)
        return h + self.out(self.activation(z))


class Sweep(nn.Module):
    """Forward and backward over all blocks; every group is updated from groups already updated in this sweep.

    A residual stream is updated by each block that writes to it, in order, like the stream itself. The parameters are
    shared by all blocks, so depth and width appear in no shape.

    Args:
        hidden: Channels of a node's state.
        messages: Channels of a message.
        basis: Number of basis functions over the taps.
        kinds: Number of kinds of groups (activation functions).
        activation: Nonlinearity of the updates.
        normalise: Whether messages and states are normalised.
    """

    def __init__(self, hidden: int, messages: int, basis: int, kinds: int, activation: str, normalise: bool) -> None:
        super().__init__()
        self.normalise = normalise
        self.norm_read = nn.LayerNorm(hidden) if normalise else nn.Identity()
        self.mix_forward = nn.Parameter(torch.randn(basis, hidden, messages) / hidden**0.5)
        self.mix_backward = nn.Parameter(torch.randn(basis, hidden, messages) / hidden**0.5)
        self.read = nn.Linear(len(NODE_ROLES), hidden, bias=False)
        self.kind_forward = nn.Parameter(torch.randn(kinds, hidden) * 0.5)
        self.kind_backward = nn.Parameter(torch.randn(kinds, hidden) * 0.5)
        self.update_forward = Update(hidden, messages, activation, normalise, params=True)
        self.update_backward = Update(hidden, messages, activation, normalise, params=False)

    def forward(
        self, steps: Sequence[PreparedStep], states: dict[str, Tensor], kinds: dict[str, int], fixed: set[str]
    ) -> dict[str, Tensor]:
        """New states of all groups.

        Args:
            steps: Blocks in order of execution.
            states: Group name → ``[..., n, hidden]``.
            kinds: Group name → row of the kind embeddings.
            fixed: Groups whose states are given and never updated (network inputs).
        """
        states = dict(states)
        for s in steps:
            target, source = s.step.block.target, s.step.block.source or s.step.block.target
            h = _gained(self.norm_read(states[source]), s.gain_read)
            if s.read is not None:
                h = h + self.read(s.read)
            m = self._normalised(_gained(s.edges.forward(h, self.mix_forward), s.gain_written), s)
            states[target] = self.update_forward(states[target], m, self.kind_forward[kinds[target]], s.written)
        for s in reversed(steps):
            target, source = s.step.block.target, s.step.block.source or s.step.block.target
            if source in fixed:
                continue
            h = _gained(self.norm_read(states[target]), s.gain_written)
            m = self._normalised(_gained(s.edges.backward(h, self.mix_backward), s.gain_read), s)
            states[source] = self.update_backward(states[source], m, self.kind_backward[kinds[source]])
        return states

    def _normalised(self, m: Tensor, s: PreparedStep) -> Tensor:
        """Each channel centred and scaled to unit variance over the nodes: widths and scales transfer.

        A few nodes say little about their distribution (two of them would become ±1 whatever they hold), so the mean is
        shrunk towards zero and the variance towards that of all channels, as if PRIOR more nodes had been seen.
        """
        if not self.normalise:
            return m
        n = m.shape[-2]
        m = m - m.mean(dim=-2, keepdim=True) * (n / (n + PRIOR))
        channel = m.square().mean(dim=-2, keepdim=True)
        variance = (n * channel + PRIOR * channel.mean(dim=-1, keepdim=True)) / (n + PRIOR)
        return m * torch.rsqrt(variance + 1e-6 * s.scale.square())


def _gained(x: Tensor, gain: Tensor | None) -> Tensor:
    return x if gain is None else x * gain
