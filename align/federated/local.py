"""A federation inside this process: all clients of a round answer by one function, which may train them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from .flower import Grid, Message, TaskIdentity

Answer = Callable[[Sequence[Message]], Iterable[Message]]


class LocalGrid(Grid):
    """What a strategy's ``start`` needs of a grid, without processes, network or serialisation.

    Args:
        clients: How many; their nodes are numbered from 1.
        answer: Replies to some messages, ``Message(content, reply_to=message)``.
    """

    def __init__(self, clients: int, answer: Answer) -> None:
        self.clients, self.answer = clients, answer
        # Messages say from which run they come; Flower sets this where it starts one.
        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1

    def get_node_ids(self) -> Iterable[int]:
        """The clients' nodes."""
        return range(1, self.clients + 1)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """The replies; nobody is late."""
        sent = list(messages)
        return list(self.answer(sent)) if sent else []

    @property
    def run(self) -> NoReturn:
        """There is no run."""
        raise NotImplementedError("a LocalGrid belongs to no run of Flower's")

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("a LocalGrid only has send_and_receive: use a strategy's start")

    set_run = create_message = push_messages = pull_messages = _refuse
