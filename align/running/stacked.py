"""Run several networks of one architecture, their tensors stacked: vectorised where torch can, else one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.func import vmap

Stacked = Tensor | Mapping[str, Tensor]
"""A tensor, or the tensors of networks by name, with a leading axis of networks."""
_ALONE: WeakSet[nn.Module] = WeakSet()  # modules found to be without a rule; tried once


def over_networks(
    template: nn.Module, function: Callable[..., Tensor], *stacked: Stacked, alone: bool = False, rewind: bool = True
) -> Tensor:
    """``function`` of each network's part of the arguments, results stacked.

    ``vmap`` has no rule for some functions (LSTM and GRU, fused attention). Torch answers with an error, or with a
    loop over that function, a warning and, for attention, no gradient; the loop is no faster than one over networks.
    So whatever has no rule is run one by one, and an error of the network's own shows up there unchanged.

    Args:
        template: The module that ``function`` calls.
        function: Of one network.
        stacked: Its arguments for all networks.
        alone: Do not even try to vectorise.
        rewind: Set torch's generator back after a try in vain; not where nothing draws from it but other threads.
    """
    if alone or template in _ALONE:
        return _one_by_one(function, stacked)
    random = torch.get_rng_state()
    try:
        with _rules_only():
            return vmap(function, randomness="different")(*stacked)
    except RuntimeError:
        if rewind:
            torch.set_rng_state(random)  # as if it had not been tried: a resumed training tries again
    out = _one_by_one(function, stacked)
    _ALONE.add(template)  # it works like this and not like that; a call that is wrong either way is not remembered
    return out


def slow_together(tensors: Mapping[str, Tensor]) -> bool:
    """Whether networks run faster one by one than vectorised: convolutions do on a CPU, by a factor of two."""
    return any(t.dim() >= 4 and t.device.type == "cpu" for t in tensors.values())


def _one_by_one(function: Callable[..., Tensor], stacked: Sequence[Stacked]) -> Tensor:
    return torch.stack([function(*parts) for parts in zip(*map(_parts, stacked), strict=True)])


def _parts(stacked: Stacked) -> Sequence[Any]:
    """One argument per network; by ``unbind``, whose gradient is one stack and not a sum of mostly empty ones."""
    if isinstance(stacked, Tensor):
        return stacked.unbind()
    networks = zip(*(t.unbind() for t in stacked.values()), strict=True)
    return [dict(zip(stacked, tensors, strict=True)) for tensors in networks]


@contextmanager
def _rules_only() -> Iterator[None]:
    """Inside, ``vmap`` raises where it has no rule, in place of looping with a warning; the switch is torch's own."""
    switch: Any = torch._C._functorch
    before = switch._is_vmap_fallback_enabled()
    switch._set_vmap_fallback_enabled(False)
    try:
        yield
    finally:
        switch._set_vmap_fallback_enabled(before)
