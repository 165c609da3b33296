"""Networks between two networks."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor


def interpolate(a: Mapping[str, Tensor], b: Mapping[str, Tensor], weight: float) -> dict[str, Tensor]:
    """weight · a + (1 − weight) · b, new tensors throughout; counters are copied from a."""
    return {k: weight * x + (1 - weight) * b[k] if x.is_floating_point() else x.clone() for k, x in a.items()}


def require_same_shapes(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> None:
    """Raise unless two networks have the same parameters, naming the first that differs."""
    for name in dict.fromkeys([*a, *b]):
        x, y = (tuple(t[name].shape) if name in t else "missing" for t in (a, b))
        if x != y:
            raise ValueError(f"the networks have different architectures: '{name}' is {x} in one and {y} in another")
