"""A network as a graph: :class:`WeightGraph`, a ``torch_geometric.data.Data``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.data.storage import GlobalStorage

from .blocks import Block
from .checkpoints import AnyPath, opened
from .confirming import confirm
from .inputs import ExampleInput
from .modules import tensors_of, with_tensors
from .network import Network
from .origin import Origin
from .sequential import spec_of_state_dict, square_convolutions
from .sparsity import find_support
from .spec import Spec
from .tables import as_html
from .tracing import trace
from .weights import require_finite, require_module, require_numbers, require_weights

_ASSUMED = (
    "the Spec is read off the tensors of a state dict, assuming a plain chain of layers; where layers branch or add up "
    "(residual networks), permuted weights would compute something else: pass the module, or spec="
)
_SQUARE = "; {} are read as Conv, and a ConvTranspose with as many inputs as outputs looks the same"
_NODE_KEYS, _EDGE_KEYS = ("x", "pos", "group"), ("edge_index", "edge_attr")


class _LazyStorage(GlobalStorage):
    """A PyG storage whose node and edge tensors are built from the network when somebody looks at them.

    They count as present everywhere PyG looks (``in``, ``keys``, collation, transforms). Moving to a device, copying
    and printing leave them unbuilt. Once built, or assigned, they are ordinary attributes.
    """

    def _absent(self) -> tuple[str, ...]:
        if "network" not in self._mapping:
            return ()
        return tuple(k for k in (*_NODE_KEYS, *_EDGE_KEYS) if k not in self._mapping and k not in self._dropped)

    @property
    def _dropped(self) -> set[str]:
        return self.__dict__.setdefault("_dropped_keys", set())

    def _build(self, key: str) -> None:
        networks = self._mapping["network"]
        networks = networks if isinstance(networks, list) else [networks]
        built: dict[str, list[Tensor]] = {}
        start = 0
        for network in networks:
            for k, value in (network.node_features() if key in _NODE_KEYS else network.edges()).items():
                built.setdefault(k, []).append(value + start if k == "edge_index" else value)
            start += network.num_nodes
        for k in set(built) & set(self._absent()):
            self._mapping[k] = torch.cat(built[k], dim=1 if k == "edge_index" else 0)

    def _build_all(self) -> None:
        for key in (_NODE_KEYS[0], _EDGE_KEYS[0]):
            if key in self._absent():
                self._build(key)

    def __getitem__(self, key: str) -> Any:
        if key in self._absent():
            self._build(key)
        return self._mapping[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if key in _EDGE_KEYS and key in self._absent() and value is not None:
            self._build(key)  # its partner must still describe the edges that were
        if value is None:
            self._dropped.add(key)
        else:
            self._dropped.discard(key)
        super().__setitem__(key, value)

    def __copy__(self) -> _LazyStorage:
        out = super().__copy__()
        out.__dict__["_dropped_keys"] = set(self._dropped)
        return out

    def __delitem__(self, key: str) -> None:
        self._dropped.add(key)
        super().__delitem__(key)

    def __contains__(self, key: object) -> bool:
        return key in self._mapping or key in self._absent()

    def __iter__(self) -> Iterator[str]:
        return iter([*self._mapping, *self._absent()])

    def __len__(self) -> int:
        return len(self._mapping) + len(self._absent())

    def get(self, key: str, value: Any = None) -> Any:
        return self[key] if key in self else value  # noqa: SIM401 - this is get

    def keys(self, *args: str) -> Any:
        return [k for k in self if not args or k in args]

    def values(self, *args: str) -> Any:
        return [self[k] for k in self.keys(*args)]

    def items(self, *args: str) -> Any:
        return [(k, self[k]) for k in self.keys(*args)]

    def to_dict(self) -> dict[str, Any]:
        self._build_all()
        return super().to_dict()

    def apply(self, func: Any, *args: str) -> _LazyStorage:
        for key, value in list(super().items(*args)):
            self._mapping[key] = _apply(value, func)
        return self

    def apply_(self, func: Any, *args: str) -> _LazyStorage:
        for value in super().values(*args):
            _apply(value, func)
        return self


def _apply(value: Any, func: Any) -> Any:
    if isinstance(value, list):
        return [_apply(v, func) for v in value]
    if isinstance(value, Network):
        return value.map(func)
    return func(value) if isinstance(value, Tensor) else value


class WeightGraph(Data):
    """A network as a graph. Nodes are neurons and channels, inputs and outputs included; edges are weights.

    Attributes:
        spec (Spec): Groups and parameter axes.
        tensors (Mapping[str, Tensor]): The state dict's own tensors, not copied.
        blocks (list[tuple[Block, Tensor]]): Each part of a parameter as a dense view ``[target, source, taps]`` (edges)
            or ``[target, taps]`` (node features), in order of execution. What the encoder computes with.
        num_nodes (int): N, the sum of all group sizes. Node order: groups as in ``spec.groups``, elements in order.
        group (LongTensor [N]): Index of each node's group in ``spec.groups``.
        x (Tensor [N, 7]): One-axis parameters by role (:data:`wsgraph.network.NODE_ROLES`), summed where a group has
            several.
        pos (Tensor [N, 3]): Grid coordinates of pinned nodes (inputs, outputs); zero for hidden ones.
        edge_index (LongTensor [2, E]): Source (read from) and target (written to) node of each edge, block after block.
        edge_attr (Tensor [E, 9]): Taps of each edge on a cosine basis (:func:`wsgraph.taps.tap_basis`): lossless up to
            3 × 3 kernels, ``edge_attr[:, 0]`` is the weight itself for Linear layers.

    ``x``, ``pos``, ``group``, ``edge_index`` and ``edge_attr`` are built on first use; any PyG model, transform and
    loader works on them. ``Batch.from_data_list`` takes graphs of different architectures; ``batch[i]`` is the i-th
    graph again. To batch big networks without building edges, pass ``exclude_keys=["edge_index", "edge_attr"]``.
    """

    def __init__(self, network: Network | None = None, **kwargs: Any) -> None:
        super().__init__()
        self.__dict__["_store"] = _LazyStorage(_parent=self)
        if network is not None:
            self.network = network
            self.num_nodes = network.num_nodes
        for key, value in kwargs.items():
            setattr(self, key, value)

    @property
    def spec(self) -> Spec:
        return self._single.spec

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        return self._single.tensors

    @property
    def _single(self) -> Network:
        network = self._store._mapping.get("network")
        if isinstance(network, list):
            raise TypeError(f"this is a batch of {len(network)} networks; take one with batch[i]")
        if network is None:
            raise TypeError("this WeightGraph is empty; make one with wsgraph.to_graph(model)")
        return network

    @property
    def blocks(self) -> list[tuple[Block, Tensor]]:
        return [(block, block.view(self.tensors[block.param])) for block in self.spec.blocks]

    @property
    def offsets(self) -> dict[str, int]:
        """Index of every group's first node."""
        return self._single.offsets

    def replace(self, tensors: Mapping[str, Tensor]) -> WeightGraph:
        """The same architecture with other tensors."""
        self.spec.check(tensors)
        support = None if self._single.support is None else find_support(self.spec, tensors)
        return WeightGraph(Network(self.spec, dict(tensors), support, self._single.origin))

    def to_state_dict(self) -> dict[str, Tensor]:
        """The state dict, exactly: the inverse of ``to_graph(state_dict, spec=spec)``."""
        return dict(self.tensors)

    def to_module(self, template: nn.Module) -> nn.Module:
        """A copy of ``template`` that holds this graph's tensors (copied, detached)."""
        self.spec.check(tensors_of(template))
        return with_tensors(template, self._single.map(lambda t: t.detach().clone()).tensors)

    def to_networkx(self) -> Any:
        """A ``networkx.MultiDiGraph``.

        Nodes carry ``name`` (``"fc1[3]"``), ``group``, ``layer`` (position of the group) and ``pinned``; edges carry
        ``param``, ``weight`` (the sum of the taps) and ``taps`` (all of them).
        """
        from .nx import to_networkx

        return to_networkx(self)

    def __repr__(self) -> str:
        network = self._store._mapping.get("network")
        if isinstance(network, list):
            return f"{type(self).__name__}({len(network)} networks, {self.num_nodes} nodes)"
        if network is None:
            return f"{type(self).__name__}()"
        weights = sum(t.numel() for t in network.tensors.values())
        return (
            f"{type(self).__name__}({self.num_nodes} nodes in {len(network.spec.groups)} groups, {weights:,} weights)"
        )

    def _repr_html_(self) -> str:
        network = self._store._mapping.get("network")
        table = as_html(network.spec) if isinstance(network, Network) else ""
        return f"<p>{escape(repr(self))}</p>{table}"


def to_graph(
    network: nn.Module | Mapping[str, Tensor] | AnyPath,
    example_input: ExampleInput | None = None,
    *,
    spec: Spec | None = None,
    verify: bool = True,
) -> WeightGraph:
    """The graph of a network. Nothing is copied: blocks are views of the weights.

    A network that is mostly zeros (pruned) becomes a graph of its non-zero edges only, and the encoder's cost is in
    proportion to them.

    Args:
        network: A module, or the state dict of a plain MLP or CNN whose layers come in order. Whether it is one cannot
            be told from tensors, hence a warning: for anything else pass ``spec`` or the module. Or the path of one of
            them (see :mod:`wsgraph.checkpoints`).
        example_input: What :func:`wsgraph.trace` needs when it cannot infer it.
        spec: A ready Spec; nothing is traced then.
        verify: Whether the Spec, traced or ready, is checked against the module numerically (once per architecture).

    Example:
        >>> graph = to_graph(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)))
        >>> graph
        WeightGraph(23 nodes in 3 groups, 131 weights)
        >>> graph.edge_index.shape
        torch.Size([2, 112])
    """
    network, origin = opened(network), None
    if isinstance(network, nn.Module):
        origin = Origin(network, example_input)
        tensors: dict[str, Tensor] = tensors_of(network)
        if spec is None:
            spec = trace(network, example_input, verify=verify)
        else:
            require_module(network)
            require_weights(tensors)
            spec.check(tensors)
            if verify:
                confirm(network, spec, example_input)
    elif isinstance(network, Mapping):
        tensors = dict(network)
        for name, value in tensors.items():
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"'{name}' is of type {type(value).__name__}, expected a tensor; if this is a checkpoint with "
                    "other things in it, pass the state dict itself, e.g. to_graph(checkpoint['model'])"
                )
        require_weights(tensors)
        if spec is None:
            spec = spec_of_state_dict(tensors)
            square = square_convolutions(tensors)
            warnings.warn(_ASSUMED + _SQUARE.format(square) * bool(square), stacklevel=2)
    else:
        raise TypeError(f"to_graph expects an nn.Module, a state dict or a path, got {type(network).__name__}")
    spec.check(tensors)
    require_numbers(spec, tensors)
    require_finite(tensors)
    return WeightGraph(Network(spec, tensors, find_support(spec, tensors), origin))
