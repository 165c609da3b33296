"""A network's tensors together with their Spec: what a WeightGraph carries, opaque to PyG's collation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .origin import Origin
from .spans import spans
from .sparsity import Support
from .spec import Spec
from .taps import BASIS_SIZE, tap_basis
from .ties import map_tied

NODE_ROLES = ("bias", "norm_scale", "norm_shift", "mean", "variance", "slope", "other")
"""Columns of ``WeightGraph.x``."""


@dataclass(frozen=True, eq=False)
class Network:
    """Tensors by name, in the layout of a Spec; ``support`` lists the edges of a pruned network, ``origin`` runs it.

    PyG batches it as one value; moving and copying a graph maps over its tensors.
    """

    spec: Spec
    tensors: Mapping[str, Tensor]
    support: Support | None = None
    origin: Origin | None = None

    def map(self, function: Callable[[Tensor], Tensor]) -> Network:
        """Apply ``function`` to every tensor; tied ones stay tied."""
        new = map_tied(self.tensors, lambda _, tensor: function(tensor))
        support = self.support
        if support is not None:
            device = next(iter(new.values())).device
            support = {block: index.to(device) for block, index in support.items()}
        return Network(self.spec, new, support, self.origin)

    @property
    def like(self) -> Tensor:
        """A tensor whose device and dtype stand for the network's."""
        return next((t for t in self.tensors.values() if t.is_floating_point()), next(iter(self.tensors.values())))

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Index of every group's first node."""
        return node_offsets(self.spec)

    @property
    def num_nodes(self) -> int:
        return sum(g.size for g in self.spec.groups.values())

    def node_features(self) -> dict[str, Tensor]:
        """``x``, ``pos`` and ``group``; see :class:`~wsgraph.WeightGraph`."""
        like, spec = self.like, self.spec
        x = torch.zeros(self.num_nodes, len(NODE_ROLES), device=like.device, dtype=like.dtype)
        for block in spec.blocks:
            role = spec.params[block.param].role
            if block.source is None and role in NODE_ROLES:
                rows = slice(self.offsets[block.target], self.offsets[block.target] + spec.groups[block.target].size)
                x[rows, NODE_ROLES.index(role)] += block.view(self.tensors[block.param]).mean(-1).to(like.dtype)
        pos = torch.zeros(self.num_nodes, 3, device=like.device)
        for name, group in spec.groups.items():
            if group.pinned:
                grid = torch.cartesian_prod(
                    *(torch.arange(n, device=like.device) for n in group.shape or (group.size,))
                )
                grid = grid.reshape(group.size, -1)[:, :3]
                pos[self.offsets[name] : self.offsets[name] + group.size, : grid.shape[1]] = grid.to(pos.dtype)
        sizes = torch.tensor([g.size for g in spec.groups.values()], dtype=torch.long, device=like.device)
        groups = torch.repeat_interleave(
            torch.arange(len(sizes), device=like.device), sizes, output_size=self.num_nodes
        )
        return {"x": x, "pos": pos, "group": groups}

    def _nodes(self, group: str, device: torch.device) -> Tensor:
        return torch.arange(self.spec.groups[group].size, device=device) + self.offsets[group]

    def edges(self) -> dict[str, Tensor]:
        """``edge_index`` and ``edge_attr`` of all blocks, in order of execution; see :class:`~wsgraph.WeightGraph`."""
        index, attr = [], []
        for block in self.spec.blocks:
            if block.source is None and self.spec.params[block.param].role != "weight":
                continue
            view = block.view(self.tensors[block.param])
            target = self._nodes(block.target, view.device)
            if block.source is None:  # depthwise: every channel reads itself
                index.append(torch.stack([target, target]))
            elif block.runs > 1:
                pairs = (self._nodes(n, view.device).view(block.runs, -1) for n in (block.source, block.target))
                index.append(torch.cat([torch.cartesian_prod(t, s).T.flip(0) for s, t in zip(*pairs, strict=True)], 1))
            else:
                source = self._nodes(block.source, view.device)
                if self.support is not None:
                    i, j = self.support[block]
                    index.append(torch.stack([source[i], target[j]]))
                    attr.append(view[j, i] @ tap_basis(block.taps, BASIS_SIZE, view))
                    continue
                index.append(torch.stack([source.repeat(len(target)), target.repeat_interleave(len(source))]))
            attr.append((view @ tap_basis(block.taps, BASIS_SIZE, view)).flatten(0, -2))
        like = self.like
        if not index:
            return {
                "edge_index": torch.zeros(2, 0, dtype=torch.long, device=like.device),
                "edge_attr": like.new_zeros(0, BASIS_SIZE),
            }
        return {"edge_index": torch.cat(index, 1), "edge_attr": torch.cat(attr)}


def stack_of(networks: Sequence[Network], param: str) -> Tensor:
    """One parameter of networks of one architecture on a leading axis; as it is, of a single network."""
    tensors = [n.tensors[param] for n in networks]
    return tensors[0] if len(tensors) == 1 else torch.stack(tensors)


def node_offsets(spec: Spec) -> dict[str, int]:
    """Index of every group's first node in the graph of ``spec``."""
    starts = (start for start, _ in spans(group.size for group in spec.groups.values()))
    return dict(zip(spec.groups, starts, strict=True))
