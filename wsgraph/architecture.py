"""When are two modules the same architecture? A key of everything that is not a tensor's value."""

from __future__ import annotations

from collections.abc import Hashable

from torch import nn

from .freezing import ORIGIN, Freezer, OpaqueError
from .inputs import ExampleInput
from .shell import HOOKS, own_hooks, parts_of
from .wrappers import is_wrapper

_SKIPPED = {"_parameters", "_buffers", "_modules", "training", *HOOKS, *ORIGIN}
_RECURRENT = {"_flat_weights", "_flat_weight_refs"}
"""Of ``nn.LSTM`` and its kin: their parameters once more, which forward collects anew whenever they were replaced."""


def architecture_key(module: nn.Module, example_input: ExampleInput | None) -> tuple[Hashable, Hashable] | None:
    """Key that is equal for two modules exactly when a trace of one serves the other; ``None`` if that cannot be told.

    Its first part is the network: classes with their attributes and code, all non-tensor attributes (two attention
    layers with 2 and 4 heads have equal shapes), shapes and dtypes of tensors, and which tensors are tied. The second
    is the shapes of the example input.
    """
    registered, reached = {id(sub): name for name, sub in module.named_modules()}, parts_of(module)
    freeze = Freezer(registered)
    try:
        tied: dict[int, str] = {}
        parts: list[Hashable] = []
        for name, sub in module.named_modules(remove_duplicate=False):
            parts.append((name, freeze.kind(type(sub)), registered[id(sub)]))
            if name != registered[id(sub)]:
                continue  # a shared module, described under its first name
            skipped = _SKIPPED | _RECURRENT if isinstance(sub, nn.RNNBase) else _SKIPPED
            attributes = {} if is_wrapper(sub) else {k: v for k, v in vars(sub).items() if k not in skipped}
            hooks = list(own_hooks(vars(sub), reached).values())
            parts.append((freeze(attributes), freeze(hooks)))
            for key, tensor in [*sub._parameters.items(), *sub._buffers.items()]:
                first = tied.setdefault(id(tensor), f"{name}.{key}")
                parts.append((key, tensor is not None and (freeze(tensor), first)))
        return (tuple(parts), freeze(example_input))
    except OpaqueError:
        return None
