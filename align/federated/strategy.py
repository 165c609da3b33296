"""A Flower strategy that aligns clients' networks before another one averages them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from wsgraph import Permutation, to_graph
from wsgraph.inputs import ExampleInput

from ..alignment import counted
from ..many import match_many
from ..matching import COMMON, match
from ..merging.merge import merge
from ..methods.registry import Request, methods_of, require_request
from ..running.networks import Tensors
from .flower import ArrayRecord, ConfigRecord, FedAvg, Grid, Message, MetricRecord, RecordDict, Strategy, log
from .replies import Update, leave_out, require_fit, sort_out, tensors_in

FRAMES = ("global", "clients")
STATISTICS = ("average", "local")
OUTLIERS = ("keep", "clip", "leave out")


class Aligned(Strategy):
    """Another strategy, whose clients' networks are permuted into one frame before it aggregates them.

    The server needs no data. Replies that cannot be averaged (of another architecture, with NaN in them) are left out,
    and the log names who sent them; so are clients that did not reply.

    Args:
        strategy: What samples clients and averages, of Flower's Message API.
        model: A network of the clients' architecture, whose symmetry is traced here, once.
        method: As in :func:`align.match`; any that needs no data. ``sinkhorn`` has ``cost="l2"`` here.
        to: What clients are aligned to: the ``global`` network of the round, or the ``clients`` of the round, one
            another, cycle-consistently (:func:`align.match_many`). The latter is for networks that do not descend from
            the global one. The average has the order of the global network's neurons in either case.
        batchnorm: ``average`` BatchNorm statistics like weights; or keep them ``local``: every client gets its own
            back, in the new order, and the global network keeps those that it started with.
        outliers: What becomes of a client whose update, ‖client − global‖ once aligned, is larger than ``limit`` times
            the median of the round: ``keep`` it, ``clip`` it to that, or ``leave out`` the client.
        limit: See ``outliers``.
        example_input: What the model is called with, where that cannot be inferred.
        options: Arguments of the method, and ``aligner``, ``seed`` or ``scale``, as in :func:`align.match`.

    Attributes:
        permutations: How the networks of the last round were permuted, by client.
    """

    permutations: dict[int, Permutation]

    def __init__(
        self,
        strategy: Strategy,
        model: nn.Module,
        method: str = "weight_matching",
        *,
        to: str = "global",
        batchnorm: str = "average",
        outliers: str = "keep",
        limit: float = 3.0,
        example_input: ExampleInput | None = None,
        **options: Any,
    ) -> None:
        for name, value, known in (
            ("to", to, FRAMES),
            ("batchnorm", batchnorm, STATISTICS),
            ("outliers", outliers, OUTLIERS),
        ):
            if value not in known:
                raise ValueError(f"{name}={value!r} is not one of {known}")
        if not limit >= 1:
            raise ValueError(f"limit is {limit}, expected at least 1: the median itself is no outlier")
        self.strategy, self.method, self.to = strategy, method, to
        self.batchnorm, self.outliers, self.limit = batchnorm, outliers, limit
        self.graph = to_graph(model, example_input)
        self.options = _data_free(method, self.graph, options)
        self._statistics = [
            f"{path}.{name}" if path else name
            for path, module in model.named_modules()
            if isinstance(module, _NormBase)
            for name in module._buffers
        ]
        self.permutations = {}
        self._reference: Tensors = {}  # the global network of the round
        self._asked: set[int] = set()  # nodes that train in the round
        self._own: dict[int, Tensors] = {}  # BatchNorm statistics of each node, where they are local

    def summary(self) -> None:
        """Log what is aligned and how, and what the wrapped strategy says of itself."""
        log.info("\t├──> Aligned by %s to: %s", self.method, self.to)
        log.info("\t│\t└──BatchNorm statistics: %s | outliers: %s", self.batchnorm, self.outliers)
        self.strategy.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Messages of the wrapped strategy; the network that they carry is what clients are aligned to."""
        reference = {name: t.to(self._type(name)) for name, t in tensors_in(arrays).items()}
        try:
            require_fit(reference, self.graph.tensors)
        except ValueError as error:
            raise ValueError(
                f"the global network of round {server_round} is not one of the model that is aligned: {error}"
            ) from error
        self._reference = reference
        messages = [self._with_own(m) for m in self.strategy.configure_train(server_round, arrays, config, grid)]
        self._asked = {message.metadata.dst_node_id for message in messages}
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """What the wrapped strategy makes of the aligned networks; failures are told to it as they are."""
        replies = list(replies)
        for node in sorted(self._asked - {message.metadata.src_node_id for message in replies}):
            log.warning("aggregate_train: node %d did not reply in time", node)
        sent = [message for message in replies if not message.has_error()]
        updates = self._bounded(self._aligned(sort_out(sent, self.graph.tensors, _weight(self.strategy))))
        if not updates:
            log.warning("aggregate_train: no usable reply in round %d; the global network stays", server_round)
        messages = [update.replaced(self._to_be_averaged(update)) for update in updates]
        failed = [message for message in replies if message.has_error()]
        arrays, metrics = self.strategy.aggregate_train(server_round, [*messages, *failed])
        return (None if arrays is None else self._in_types(arrays)), metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Messages of the wrapped strategy."""
        return [self._with_own(m) for m in self.strategy.configure_evaluate(server_round, arrays, config, grid)]

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """What the wrapped strategy makes of the metrics."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def _aligned(self, updates: Sequence[Update]) -> list[Update]:
        """The clients' networks in the order of the global one's neurons."""
        moves = self._moves([update.tensors for update in updates]) if updates else []
        self.permutations = {update.node: move for update, move in zip(updates, moves, strict=True)}
        return [Update(u.message, move.apply(u.tensors)) for u, move in zip(updates, moves, strict=True)]

    def _moves(self, networks: Sequence[Tensors]) -> Sequence[Permutation]:
        reference, *clients = (self.graph.replace(tensors) for tensors in (self._reference, *networks))
        if self.to == "global" or len(clients) == 1:
            return self._together([reference, *clients], "reference")[1:]
        moves = self._together(clients, "universe")
        moved = [move.apply(client).tensors for move, client in zip(moves, clients, strict=True)]
        back = match(reference, reference.replace(merge(*moved)), self.method, **self.options).permutation
        return [back @ move for move in moves]

    def _together(self, graphs: Sequence[Any], way: str) -> Sequence[Permutation]:
        return match_many(graphs, way, method=self.method, **self.options).permutations

    def _bounded(self, updates: Sequence[Update]) -> list[Update]:
        """Aligned networks without those that are far off, or with these brought nearer."""
        if self.outliers == "keep" or not updates:
            return list(updates)
        sizes = torch.tensor([self._size(update.tensors) for update in updates], dtype=torch.float64)
        most = self.limit * float(sizes.median())  # of an even number the smaller one
        kept = []
        for update, size in zip(updates, sizes.tolist(), strict=True):
            if size <= most:
                kept.append(update)
            elif self.outliers == "clip":
                log.warning("aggregate_train: the update of node %d, %.3g, is clipped to %.3g", update.node, size, most)
                kept.append(Update(update.message, self._nearer(update.tensors, most / size)))
            else:
                leave_out(update.node, f"its update is {size:.3g}, more than {self.limit:g} times the median")
        return kept

    def _size(self, tensors: Tensors) -> float:
        """‖client − global‖, norm statistics aside; in float64, for there are networks whose squares overflow."""
        pairs = ((tensors[k].double(), self._reference[k].double()) for k in counted(self.graph))
        return float(torch.stack([torch.linalg.vector_norm(x - y) for x, y in pairs]).norm())

    def _nearer(self, tensors: Tensors, share: float) -> Tensors:
        """The network at a share of the way from the global one."""
        ends = {k: (self._reference[k], t) for k, t in tensors.items()}
        return {
            k: (x.double() + share * (y.double() - x.double())).to(y.dtype) if y.is_floating_point() else y
            for k, (x, y) in ends.items()
        }

    def _to_be_averaged(self, update: Update) -> Tensors:
        """The network of an update; where statistics are local, the client's are put aside."""
        if self.batchnorm == "average":
            return update.tensors
        self._own[update.node] = {name: update.tensors[name] for name in self._statistics}
        return update.tensors | {name: self._reference[name] for name in self._statistics}

    def _with_own(self, message: Message) -> Message:
        """The message to a client, with the client's own statistics where there are some."""
        own, meta = self._own.get(message.metadata.dst_node_id), message.metadata
        if own is None:
            return message
        records = {
            name: ArrayRecord({**record, **ArrayRecord(own)}) for name, record in message.content.array_records.items()
        }
        content = RecordDict({**message.content, **records})
        return Message(content, meta.dst_node_id, meta.message_type, ttl=meta.ttl, group_id=meta.group_id)

    def _in_types(self, arrays: ArrayRecord) -> ArrayRecord:
        """An average in the types of the model: that of whole numbers comes as fractions."""
        tensors = tensors_in(arrays)
        whole = {k for k, t in self.graph.tensors.items() if not t.is_floating_point()}
        return ArrayRecord({k: (t.round() if k in whole else t).to(self._type(k)) for k, t in tensors.items()})

    def _type(self, name: str) -> torch.dtype | None:
        known = self.graph.tensors.get(name)
        return None if known is None else known.dtype


class AlignedFedAvg(Aligned):
    """Flower's ``FedAvg`` of aligned networks.

    Args:
        model: As in :class:`Aligned`.
        method: As in :class:`Aligned`.
        options: Arguments of ``FedAvg`` (``fraction_train``, ...) and of :class:`Aligned` (``to``, ...).
    """

    def __init__(self, model: nn.Module, method: str = "weight_matching", **options: Any) -> None:
        averaging = {name: options.pop(name) for name in inspect.signature(FedAvg).parameters if name in options}
        super().__init__(FedAvg(**averaging), model, method, **options)


def _data_free(method: str, graph: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a method that a server can use; an error, now and not after hours of training, if it cannot."""
    methods = methods_of(method)
    if "data" in options or any(found.needs_data or found.needs_modules for found in methods):
        raise ValueError(f"method={method!r} with data: a server has none; choose weight_matching, deep_align, ...")
    if "cost" in methods[-1].options:
        options = {"cost": "l2", **options}
    own = {name: value for name, value in options.items() if name not in COMMON}
    require_request(method, Request(graph, graph, aligner=options.get("aligner")), own, COMMON)
    return options


def _weight(strategy: Any) -> str | None:
    """The metric that a strategy weights replies by; one that wraps another is asked for the inner one's."""
    while strategy is not None:
        if (name := getattr(strategy, "weighted_by_key", None)) is not None:
            return str(name)
        strategy = getattr(strategy, "strategy", None)
    return None
