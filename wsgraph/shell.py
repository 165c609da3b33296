"""A private shell of a module: objects, modes, buffers and hooks of its own around the very same weights.

Whoever runs a network switches its mode, swaps its tensors, lets it count batches. On a shell none of that reaches the
caller's module, not even for a moment, so threads may share a network.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .wrappers import Unwrapped, is_wrapper, state_of

HOOKS = tuple(name for name, value in vars(nn.Module()).items() if "_hooks" in name and isinstance(value, dict))
"""Attributes of every module that hold its hooks, or flags of them, by number."""


_PLAIN = (int, float, str, bool, type(None), torch.dtype, torch.device)
"""Attributes that need no copy."""


def shell(module: nn.Module) -> nn.Module:
    """A module that computes what ``module`` does, in the same modes, with the same parameters: hardly any memory.

    Buffers are copied, because norms write to theirs in place; so are the few parameters that forward writes to.
    """
    renormalised = {id(sub.weight) for sub in module.modules() if getattr(sub, "max_norm", None) is not None}
    return rebuilt(module, {id(t): t for t in module.parameters() if id(t) not in renormalised})


def rebuilt(module: nn.Module, tensors: Mapping[int, Tensor]) -> nn.Module:
    """A copy of ``module`` that holds ``tensors`` in place of those with these ids; everything else is copied.

    Modules are made here rather than by ``copy.deepcopy``, because what a class does about being copied or pickled
    varies: parametrized ones refuse, LSTMs write to themselves, and a ``__deepcopy__`` may lose the new tensors.
    Wrappers are not copied, only what they wrap (see :mod:`wsgraph.wrappers`).
    """
    reached = _reached(module)
    parts = _modules_in(reached)
    # Results of earlier calls that modules keep as attributes cannot be copied with their gradient.
    results = {key: t.detach().clone() for key, t in reached.items() if isinstance(t, Tensor) and not t.is_leaf}
    new = {key: object.__new__(Unwrapped if is_wrapper(part) else type(part)) for key, part in parts.items()}
    memo: dict[int, Any] = {**results, **tensors, **new}
    for key, part in reversed(parts.items()):  # children first: a __setstate__ may look at them
        if is_wrapper(part):
            vars(new[key]).update(_copied(state_of(part), parts, memo))
        elif _has_own_state(part):
            state = part.__getstate__()
            state = _copied(state, parts, memo) if isinstance(state, dict) else copy.deepcopy(state, memo)
            new[key].__setstate__(state)
        else:
            vars(new[key]).update(_copied(vars(part), parts, memo))
    return copy.deepcopy(module, memo)


def parts_of(module: nn.Module) -> dict[int, nn.Module]:
    """The module and all it is made of or refers to, be it in lists, dicts or plain attributes, by id."""
    return _modules_in(_reached(module))


def _modules_in(reached: Mapping[int, Any]) -> dict[int, nn.Module]:
    return {key: thing for key, thing in reached.items() if isinstance(thing, nn.Module)}


def _reached(module: nn.Module) -> dict[int, Any]:
    """Everything in attributes and containers of the module and, in turn, of the modules there, by id."""
    found: dict[int, Any] = {}
    todo: list[Any] = [module]
    while todo:
        thing = todo.pop()
        if id(thing) in found or isinstance(thing, torch.jit.ScriptModule):  # those copy themselves, in C++
            continue
        found[id(thing)] = thing
        if isinstance(thing, nn.Module) and is_wrapper(thing):
            todo += thing._modules.values()
        elif isinstance(thing, nn.Module):
            todo += [value for name, value in vars(thing).items() if name not in HOOKS]
        elif isinstance(thing, Mapping):
            todo += thing.values()
        elif isinstance(thing, (list, tuple, set, frozenset)):
            todo += thing
    return found


def own_hooks(state: Mapping[str, Any], parts: Mapping[int, nn.Module]) -> dict[int, Any]:
    """Hooks that are a part of the function, by number, among a module's attributes.

    They are methods of the network's own modules, and what ``torch.nn.utils`` computes weights by (weight norm,
    spectral norm, pruning).
    """
    hooks = {number: hook for name in HOOKS for number, hook in state.get(name, {}).items() if callable(hook)}
    return {number: hook for number, hook in hooks.items() if _is_own(hook, parts)}


def _is_own(hook: Any, parts: Mapping[int, nn.Module]) -> bool:
    while callable(inner := getattr(hook, "func", None) or getattr(hook, "hook", None)):
        hook = inner  # a partial function, or torch's wrapper of a hook for loading
    homes = [getattr(hook, "__module__", None) or "", *(kind.__module__ for kind in type(hook).__mro__)]
    return id(getattr(hook, "__self__", None)) in parts or any(home.startswith("torch.nn.utils.") for home in homes)


def _copied(state: Mapping[str, Any], parts: Mapping[int, nn.Module], memo: dict[int, Any]) -> dict[str, Any]:
    """A copy of a module's attributes; hooks that somebody hung on it are left out: they are about that very module.

    So does what ``module.compile()`` made, which would call that module.
    """
    own = own_hooks(state, parts)
    out: dict[str, Any] = {}
    for name, value in state.items():
        if name in HOOKS:
            value = type(value)((number, hook) for number, hook in value.items() if number in own)
        if name != "_compiled_call_impl":
            plain = isinstance(value, _PLAIN) or (name in HOOKS and not value)  # most are
            out[name] = value if plain else copy.deepcopy(value, memo)
    if not out.get("_backward_hooks"):
        out["_is_full_backward_hook"] = None  # which of both kinds, once there is one
    return out


def _has_own_state(part: nn.Module) -> bool:
    """Whether the class itself says which attributes to copy: it may hold a lock, or a compiled call of ``part``."""
    home = getattr(type(part).__getstate__, "__module__", None) or ""
    return bool(home) and not home.startswith("torch.nn.")
