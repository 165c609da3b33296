"""What is used of Flower, where it is installed; and its logger, so that our lines stand among its own."""

from __future__ import annotations

import logging

try:
    from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import FedAvg, Strategy
    from flwr.supercore.task_identity import TaskIdentity
except ImportError as error:
    raise ImportError("align.federated needs Flower: pip install 'wsgraph[federated]'") from error

__all__ = [
    "ArrayRecord",
    "ConfigRecord",
    "FedAvg",
    "Grid",
    "Message",
    "MetricRecord",
    "RecordDict",
    "Strategy",
    "TaskIdentity",
    "log",
]

log = logging.getLogger("flwr")
