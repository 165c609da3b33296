"""Random numbers that belong to one call: the same ones every time, and none of the caller's."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

SEED = 0
"""What a seed of ``None`` stands for: the same call gives the same answer."""

_GLOBAL = threading.Lock()  # while torch's one generator is borrowed


def seeded(seed: int | None = None) -> torch.Generator:
    """A new generator; without a seed always the same."""
    return torch.Generator().manual_seed(SEED if seed is None else seed)


class OwnDraws(TorchDispatchMode):
    """Inside, whatever draws (a dropout, noise in a forward) draws from a seeded stream in place of torch's generator.

    Most operators cannot be given a generator, so torch's is borrowed for the moment of each draw.
    """

    def __init__(self, seed: int | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._state = seeded(seed).get_state()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **(kwargs or {}))
        with _GLOBAL, torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._state)
            out = func(*args, **(kwargs or {}))
            self._state = torch.get_rng_state()
        return out
