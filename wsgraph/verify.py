"""Check a Spec numerically: a random element of the group must leave the outputs as they are."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .modules import double_copy, tensors_of, with_tensors
from .permutation import Permutation
from .randomness import OwnDraws, seeded
from .rescale import random_factors, rescale
from .shell import shell
from .spec import Spec

TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-3}
LOWER = (torch.float32, torch.bfloat16, torch.float16)


def verify_spec(model: nn.Module, spec: Spec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise if a random permutation of ``spec`` changes the outputs of (a jittered float64 copy of) ``model``."""
    generator = seeded()
    copy, args, kwargs, precision = _double(model, args, kwargs, generator)
    with precision:
        _verify(copy, spec, args, kwargs, generator)


def _verify(copy: nn.Module, spec: Spec, args: Any, kwargs: Any, generator: torch.Generator) -> None:
    expected = call(copy, args, kwargs)
    _verify_scalings(copy, spec, expected, args, kwargs, generator)
    permutation = _moving(Permutation.random(spec, generator))
    if error(expected, call(permutation.apply(copy), args, kwargs)) is None:
        return
    for root in dict.fromkeys(list(spec.lineage(g.name))[-1] for g in spec.free):
        family = {k: m for k, m in permutation.maps.items() if root in spec.lineage(k)}
        single = Permutation(spec, family)
        if (found := error(expected, call(single.apply(copy), args, kwargs))) is not None:
            raise RuntimeError(
                f"permuting group '{next(iter(family))}' of {type(copy).__name__} changes its outputs (relative error "
                f"{found:.1e}): the trace is wrong. Please report the model; meanwhile pin the group in a Spec of your "
                f"own and pass spec=.\n{spec}"
            )
    raise RuntimeError(f"permuting all groups of {type(copy).__name__} together changes its outputs:\n{spec}")


def _moving(permutation: Permutation) -> Permutation:
    """The same with small groups that happened to stay where they are rolled by one: they must be tested too."""
    spec, maps = permutation.spec, dict(permutation.maps)
    for group in sorted(spec.free, key=lambda g: len(list(spec.lineage(g.name)))):
        runs = spec.groups[group.parent].size if group.parent is not None else 1
        length = group.size // runs
        inner = maps[group.name].view(runs, length) % length
        if torch.equal(inner, torch.arange(length).expand(runs, -1)):
            inner = inner.roll(1, 1)
        around = maps.get(group.parent or "", torch.arange(runs))
        maps[group.name] = (around[:, None] * length + inner).flatten()
    return Permutation(spec, maps)


def _verify_scalings(
    copy: nn.Module, spec: Spec, expected: list[Tensor], args: Any, kwargs: Any, generator: torch.Generator
) -> None:
    if not spec.scalings:
        return
    factors = random_factors(spec, 0.5, 2.0, generator)
    scaled = with_tensors(copy, rescale(tensors_of(copy), spec, factors))
    if (found := error(expected, call(scaled, args, kwargs))) is not None:
        raise RuntimeError(
            f"the positive scalings found for {type(copy).__name__} change its outputs (relative error {found:.1e}): "
            f"the trace is wrong, please report the model. Scaled groups: {sorted({s.group for s in spec.scalings})}"
        )


def error(expected: list[Tensor], got: list[Tensor]) -> float | None:
    """Largest relative difference, or ``None`` within the tolerance of the dtype; NaN equals NaN."""
    worst = 0.0
    for x, y in zip(expected, got, strict=True):
        same = (x == y) | (x.isnan() & y.isnan())
        distance = torch.where(same, 0.0, (x - y).abs()).nan_to_num(nan=torch.inf)
        size = x.abs().nan_to_num(0.0, posinf=0.0)
        difference = float(distance.max() / size.max().clamp_min(1e-30)) if x.numel() else 0.0
        if difference > TOLERANCE.get(x.dtype, 5e-2):
            worst = max(worst, difference)
    return worst or None


def _double(
    model: nn.Module, args: Any, kwargs: Any, generator: torch.Generator
) -> tuple[nn.Module, Any, Any, AbstractContextManager[Any]]:
    copy = double_copy(model, jitter=generator)
    wide_args, wide_kwargs = _pytree.tree_map_only(
        Tensor, lambda t: t.double() if t.is_floating_point() else t, (args, kwargs)
    )
    try:
        with AllDouble():
            call(copy, wide_args, wide_kwargs)
        return copy, wide_args, wide_kwargs, AllDouble()
    except RuntimeError:  # forward makes tensors of a dtype of its own: stay in the model's
        old = tensors_of(model)
        narrow = with_tensors(model, {k: v.to(old[k].dtype) for k, v in tensors_of(copy).items()}).eval()
        return narrow, args, kwargs, nullcontext()


class AllDouble(TorchDispatchMode):
    """Casts to a lower precision inside forward (norms in float32, say) keep float64, so that the check is exact."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten._to_copy.default and kwargs.get("dtype") in LOWER:
            kwargs = {**kwargs, "dtype": torch.float64}
        return func(*args, **kwargs)


@torch.no_grad()
def call(model: nn.Module, args: Any, kwargs: Any) -> list[Tensor]:
    """The floating-point outputs of ``model`` in eval mode; random numbers, buffers and inputs stay as they are."""
    args, kwargs = _pytree.tree_map_only(Tensor, Tensor.clone, (args, kwargs))
    with OwnDraws():
        leaves = _pytree.tree_leaves(shell(model).eval()(*args, **kwargs))
    return [t for t in leaves if isinstance(t, Tensor) and t.is_floating_point()]
