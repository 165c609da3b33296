"""Networks between two networks."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor


def interpolate(a: Mapping[str, Tensor], b: Mapping[str, Tensor], weight: float) -> dict[str, Tensor]:
    """weight · a + (1 − weight) · b, new tensors throughout; counters are copied from a."""
    return {k: weight * x + (1 - weight) * b[k] if x.is_floating_point() else x.clone() for k, x in a.items()}
