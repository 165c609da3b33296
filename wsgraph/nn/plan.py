"""What the encoder needs to know of an architecture, worked out once: which edges to walk in which order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..blocks import Block
from ..network import NODE_ROLES
from ..spec import Spec


@dataclass(frozen=True)
class Step:
    """One edge block of the sweep.

    Args:
        block: The edges; ``block.source`` is ``None`` for depthwise kernels, which connect every channel to itself.
        written: One-axis parameters that act on what the block writes (its bias, the norm after it).
        read: One-axis parameters that act on what it reads (a norm in front of it).
    """

    block: Block
    written: tuple[Block, ...]
    read: tuple[Block, ...]


@dataclass(frozen=True)
class Plan:
    """The sweep over one architecture.

    Args:
        steps: Edge blocks in order of execution.
        loose: One-axis parameters next to no edge block; they are part of their nodes' initial state.
    """

    steps: tuple[Step, ...]
    loose: tuple[Block, ...]


@lru_cache(maxsize=256)
def plan_of(spec: Spec) -> Plan:
    """The plan of an architecture."""
    edges = [b for b in spec.blocks if b.source is not None or spec.params[b.param].role == "weight"]
    nodes = [b for b in spec.blocks if b.source is None and spec.params[b.param].role in NODE_ROLES]
    steps: list[Step] = []
    taken: set[Block] = set()
    for block in edges:
        near = [n for n in nodes if spec.params[n.param].block == block.param and n not in taken]
        written = tuple(n for n in near if n.target == block.target)
        read = tuple(n for n in near if n.target == block.source and n.target != block.target)
        taken.update(written, read)
        steps.append(Step(block, written, read))
    return Plan(tuple(steps), tuple(n for n in nodes if n not in taken))
