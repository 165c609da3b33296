"""Clients' networks out of Flower's replies: those that fit, and why the others do not.

Flower compares all replies of a round with one another and gives up the round, or the whole run, for one that is odd. A
NaN it averages. So odd replies are taken out first, and the log names who sent them.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..running.networks import Tensors
from .flower import ArrayRecord, Message, RecordDict, log


@dataclass(frozen=True)
class Update:
    """What a client sends after training.

    Attributes:
        message: Its reply.
        tensors: The network in it.
    """

    message: Message
    tensors: Tensors

    @property
    def node(self) -> int:
        """The client, as Flower numbers it."""
        return self.message.metadata.src_node_id

    def replaced(self, tensors: Tensors) -> Message:
        """The reply with another network in it."""
        message = copy.copy(self.message)
        (name,) = message.content.array_records
        message.content = RecordDict({**message.content, name: ArrayRecord(tensors)})
        return message


def sort_out(replies: Iterable[Message], like: Mapping[str, Tensor], weight: str | None) -> list[Update]:
    """The replies that can be averaged; each of the others is a line of the log.

    Args:
        replies: Those with content.
        like: The tensors of a network that fits.
        weight: Name of the metric that replies are weighted by, if any.
    """
    fitting: list[Update] = []
    for message in replies:
        try:
            update = Update(message, _network(message.content, like))
            _require_metrics(message.content, weight)
            fitting.append(update)
        except ValueError as error:
            leave_out(message.metadata.src_node_id, str(error))
    kinds = Counter(_kind(update.message.content) for update in fitting)
    usual = kinds.most_common(1)[0][0] if kinds else None
    for update in fitting:
        if (kind := _kind(update.message.content)) != usual:
            leave_out(update.node, f"its records are {kind}, most others' {usual}")
    return [update for update in fitting if _kind(update.message.content) == usual]


def leave_out(node: int, why: str) -> None:
    """Say that a client's reply does not count in this round."""
    log.warning("aggregate_train: the reply of node %d is left out: %s", node, why)


def tensors_in(record: ArrayRecord) -> Tensors:
    """The tensors of a record; a ValueError where there are none in it."""
    tensors = {}
    for name, array in record.items():
        try:
            found = array.numpy()
            tensors[name] = torch.from_numpy(np.array(found))  # a copy: the record's own memory may be read-only
        except (ValueError, TypeError, EOFError, OSError) as error:
            raise ValueError(f"'{name}' is no array of numbers") from error
    return tensors


def require_fit(tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> None:
    """Raise a ValueError unless names, shapes and types are those of ``like`` and all numbers are finite."""
    if missing := [name for name in like if name not in tensors]:
        raise ValueError(f"it has no '{missing[0]}' ({len(missing)} of {len(like)} entries are missing)")
    if extra := [name for name in tensors if name not in like]:
        raise ValueError(f"it has '{extra[0]}', which the model does not have")
    for name, expected in like.items():
        got = tensors[name]
        if got.shape != expected.shape:
            raise ValueError(f"'{name}' has shape {tuple(got.shape)}, expected {tuple(expected.shape)}")
        if got.dtype != expected.dtype:
            raise ValueError(f"'{name}' is of type {got.dtype}, expected {expected.dtype}")
        if not got.isfinite().all():
            raise ValueError(f"'{name}' has numbers that are not finite")


def _network(content: RecordDict, like: Mapping[str, Tensor]) -> Tensors:
    if len(content.array_records) != 1:
        raise ValueError(f"it has {len(content.array_records)} ArrayRecords, expected one")
    (record,) = content.array_records.values()
    tensors = tensors_in(record)
    require_fit(tensors, like)
    return tensors


def _require_metrics(content: RecordDict, weight: str | None) -> None:
    if len(content.metric_records) != 1:
        raise ValueError(f"it has {len(content.metric_records)} MetricRecords, expected one")
    (metrics,) = content.metric_records.values()
    if weight is None:
        return
    value = metrics.get(weight)
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"its metric '{weight}', which it is weighted by, is {value}, expected a positive number")


def _kind(content: RecordDict) -> tuple[Sequence[str], Sequence[tuple[str, int]]]:
    """What Flower wants to be alike in all replies: names of records, and of metrics with their lengths."""
    (metrics,) = content.metric_records.values()
    lengths = {name: len(value) if isinstance(value, list) else 0 for name, value in metrics.items()}
    return (*content.array_records, *content.metric_records), tuple(sorted(lengths.items()))
