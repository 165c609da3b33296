"""The permutation-equivariant encoder: a network in, one embedding per neuron out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..network import NODE_ROLES, Network, stack_of
from ..spec import Group, Spec
from .codes import CODE_SIZE, grid_codes
from .plan import plan_of
from .prepare import PreparedStep, node_features, prepare
from .spectral import spectral_codes
from .sweep import ACTIVATIONS, Sweep

if TYPE_CHECKING:
    from ..graph import WeightGraph

CODES = ("spectral", "grid")

FOLLOWING = ("identity", "relu", "gelu", "silu", "tanh", "sin", "sigmoid", "leaky_relu", "prelu", "elu")
"""Activation functions with an embedding of their own; every other one shares the last."""
STACKED = 500_000
"""Networks up to this many weights are stacked and encoded together; larger ones fill the machine by themselves."""
VIEWED = 200_000
"""A network up to this many weights is encoded under all views of its codes at once: three times as fast at 6,000
weights, 1.3 times at 135,000, little above, and states take as many times the memory as there are views. Networks
that are stacked fill the machine as they are."""


@dataclass(frozen=True)
class EncoderConfig:
    """Sizes of an :class:`Encoder`. Depth, width, kernel size and resolution of the networks are not among them.

    Args:
        hidden: Channels of a node's state.
        output: Channels of an embedding.
        sweeps: Number of forward-and-backward sweeps.
        messages: Channels of a message.
        basis: Basis functions over kernel taps.
        activation: Nonlinearity of the updates; analytic ones make exactness hold almost surely.
        normalise: Whether messages, states and embeddings are normalised.
        codes: What tells pinned nodes apart: ``spectral``, what the networks' own weights do with them
            (:mod:`wsgraph.nn.spectral`), or ``grid``, their place and index (:mod:`wsgraph.nn.codes`), which is as good
            or better for networks of one input, and means nothing to others.
        checkpoint: Recompute each sweep in the backward pass instead of keeping its activations.
    """

    hidden: int = 64
    output: int = 128
    sweeps: int = 3
    messages: int = 64
    basis: int = 9
    activation: str = "silu"
    normalise: bool = True
    codes: str = "spectral"
    checkpoint: bool = False

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation '{self.activation}' is not one of {list(ACTIVATIONS)}")
        if self.codes not in CODES:
            raise ValueError(f"codes '{self.codes}' is not one of {list(CODES)}")
        for name in ("hidden", "output", "sweeps", "messages", "basis"):
            if getattr(self, name) < 1:
                raise ValueError(f"EncoderConfig.{name} is {getattr(self, name)}, expected at least 1")


class Encoder(nn.Module):
    """Embeds the nodes of any WeightGraph: F(g·v) = g·F(v).

    Hidden nodes start equal and are told apart by the network alone; pinned ones (inputs, outputs) start from their
    codes. Then follow :class:`~wsgraph.nn.Sweep` layers.

    Args:
        config: Sizes; the defaults are those of the paper where it names them.

    Shapes:
        - **output:** ``[N, output]``, rows in the node order of the graph; for a batch, graph after graph.

    Example:
        >>> from wsgraph import to_graph
        >>> graph = to_graph(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)))
        >>> Encoder(EncoderConfig(output=32))(graph).shape
        torch.Size([23, 32])
    """

    def __init__(self, config: EncoderConfig | None = None) -> None:
        super().__init__()
        self.config = c = config or EncoderConfig()
        self.place = nn.Sequential(nn.Linear(CODE_SIZE, c.hidden), nn.SiLU(), nn.Linear(c.hidden, c.hidden))
        self.start = nn.Parameter(torch.randn(len(FOLLOWING) + 1, c.hidden) * 0.5)
        self.loose = nn.Linear(len(NODE_ROLES), c.hidden, bias=False)
        self.sweeps = nn.ModuleList(
            Sweep(c.hidden, c.messages, c.basis, len(FOLLOWING) + 1, c.activation, c.normalise) for _ in range(c.sweeps)
        )
        self.norm = nn.LayerNorm(c.hidden) if c.normalise else nn.Identity()
        self.out = nn.Linear(c.hidden, c.output)

    @property
    def dtype(self) -> torch.dtype:
        return self.out.weight.dtype

    def forward(
        self,
        graph: WeightGraph,
        codes: Mapping[str, Tensor] | None = None,
        inputs: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Embeddings of all nodes of a graph, or of a batch of graphs of any architectures.

        Args:
            graph: The network(s).
            codes: Of pinned groups by name, ``[d, CODE_SIZE]``, shared with the networks to compare with: from
                :meth:`codes`. Without them each network gets those of its own weights.
            inputs: Initial states ``[n, hidden]`` of network inputs by group name, in place of the learned ones.
        """
        network = graph.network
        networks = network if isinstance(network, list) else [network]
        out: list[Tensor] = [torch.empty(0)] * len(networks)
        for rows in together(networks):
            found = self.embed([networks[i] for i in rows], codes, inputs)
            whole = torch.cat([found[g] for g in networks[rows[0]].spec.groups], dim=-2)
            for i, embedding in zip(rows, whole if len(rows) > 1 else [whole], strict=True):
                out[i] = embedding
        return torch.cat(out)

    def codes(self, sides: Sequence[Sequence[Network]]) -> dict[str, Tensor]:
        """Codes of pinned groups, shared by the k-th networks of all sides.

        Args:
            sides: Networks of one architecture each; see :func:`~wsgraph.nn.spectral.spectral_codes`.

        Shapes:
            - **output:** group name → ``[K, d, CODE_SIZE]``, without K for single networks
        """
        like, spec = self.out.weight, sides[0][0].spec
        if self.config.codes == "spectral":
            return {name: c.to(like) for name, c in spectral_codes(sides, CODE_SIZE).items()}
        return {g.name: grid_codes(g.shape or (g.size,), like) for g in spec.groups.values() if g.pinned}

    def embed(
        self,
        networks: Sequence[Network],
        codes: Mapping[str, Tensor] | None = None,
        inputs: Mapping[str, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """Embeddings of K networks of one architecture: group name → ``[K, n, output]``, without K for a single one."""
        return self.embed_views(networks, [codes or self.codes([networks])], inputs)[0]

    def embed_views(
        self,
        networks: Sequence[Network],
        views: Sequence[Mapping[str, Tensor]],
        inputs: Mapping[str, Tensor] | None = None,
    ) -> list[dict[str, Tensor]]:
        """:meth:`embed` with each of several codes; what the weights alone determine is worked out once.

        Of a small network the views are a leading axis: few large products in place of many small ones.
        """
        spec = networks[0].spec
        steps = prepare(spec, networks, self.config.basis, self.dtype)
        starts = (self._start(spec, networks, codes, inputs or {}) for codes in views)
        small = len(networks) == 1 and _size(networks[0]) <= VIEWED and networks[0].support is None
        if not small or len(views) == 1:
            return [self._run(spec, steps, states) for states in starts]
        every = list(starts)
        found = self._run(spec, steps, {name: torch.stack([s[name] for s in every]) for name in spec.groups})
        return [{name: e[k] for name, e in found.items()} for k in range(len(views))]

    def _run(self, spec: Spec, steps: Sequence[PreparedStep], states: dict[str, Tensor]) -> dict[str, Tensor]:
        kinds = {g.name: _kind(g) for g in spec.groups.values()}
        fixed = {g.name for g in spec.groups.values() if g.why == "network input"}
        for sweep in self.sweeps:
            if self.config.checkpoint and torch.is_grad_enabled():
                states = checkpoint(sweep, steps, states, kinds, fixed, use_reentrant=False)
            else:
                states = sweep(steps, states, kinds, fixed)
            states = lift(spec, states)
        return {name: self._finish(h) for name, h in states.items()}

    @torch.compiler.disable  # type: ignore[untyped-decorator] # cached tables, as in prepare
    def _start(
        self, spec: Spec, networks: Sequence[Network], codes: Mapping[str, Tensor], inputs: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        like = self.out.weight
        lead = (len(networks),) if len(networks) > 1 else ()
        states = {}
        for group in spec.groups.values():
            h = self.start[_kind(group)].expand(group.size, -1)
            if group.name in inputs:
                h = inputs[group.name].to(like)
            elif group.pinned:
                h = h + self.place(codes[group.name])
            states[group.name] = h.expand(*lead, group.size, -1)
        one = like.new_ones(lead)
        for block in plan_of(spec).loose:
            features = node_features(spec, [block], {block.param: stack_of(networks, block.param)}, one, self.dtype)
            states[block.target] = states[block.target] + self.loose(features)
        return states

    def _finish(self, h: Tensor) -> Tensor:
        """Project, and remove what all nodes of a group have in common: it says nothing about which is which."""
        z = self.out(self.norm(h))
        return z - z.mean(dim=-2, keepdim=True) if self.config.normalise and z.shape[-2] > 1 else z


def lift(spec: Spec, states: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add to every run (a head) the mean state of the elements nested in it: often no weight is the run's own."""
    out = dict(states)
    for group in sorted(spec.groups.values(), key=lambda g: -len(list(spec.lineage(g.name)))):
        if group.parent is not None:
            runs = spec.groups[group.parent].size
            out[group.parent] = out[group.parent] + out[group.name].unflatten(-2, (runs, -1)).mean(dim=-2)
    return out


def together(networks: Sequence[Network]) -> list[list[int]]:
    """Indices of networks to encode in one go: same architecture, dense, and small enough for stacking to pay."""
    groups: dict[object, list[int]] = {}
    for i, network in enumerate(networks):
        alone = _size(network) > STACKED or network.support is not None
        groups.setdefault((i,) if alone else network.spec.fingerprint, []).append(i)
    return list(groups.values())


def _size(network: Network) -> int:
    return sum(t.numel() for t in network.tensors.values())


def _kind(group: Group) -> int:
    return FOLLOWING.index(group.activation) if group.activation in FOLLOWING else len(FOLLOWING)
