"""Check a symmetry numerically: its elements must leave the outputs as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .inputs import ExampleInput, as_call
from .modules import double_copy, tensors_of, with_tensors
from .outputs import outputs_of
from .permutation import Permutation
from .randomness import OwnDraws, seeded
from .rescale import random_factors, rescale
from .shell import shell
from .spec import Spec
from .ties import untied

TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-3}
LOWER = (torch.float32, torch.bfloat16, torch.float16)
_CHANGE = "change its outputs (relative error {:.1e})"
_CHANGES = "changes its outputs (relative error {:.1e})"
_TRACED = "the trace is wrong. Please report the model; meanwhile pin the group in a Spec of your own and pass spec=."
_GIVEN = (
    "the Spec that was passed is wrong. Correct the axes of that group, pin it by Group(..., why='...'), or leave spec "
    "out to have it found."
)


def verify_spec(
    model: nn.Module, spec: Spec, args: tuple[Any, ...], kwargs: dict[str, Any], *, given: bool = False
) -> None:
    """Raise if a random permutation of ``spec`` changes the outputs of (a jittered float64 copy of) ``model``.

    Args:
        given: Whether the Spec is the caller's own, who can correct it.
    """
    wrong = _changes(lambda: _double(model, args, kwargs, seeded()), spec, seeded(1))
    if wrong is not None:
        raise ValueError(f"{wrong}: {_GIVEN}\n{spec}") if given else RuntimeError(f"{wrong}: {_TRACED}\n{spec}")


@torch.no_grad()
def moved(model: nn.Module, permutation: Permutation, example_input: ExampleInput) -> float:
    """How far a permutation moves the function: the largest difference of outputs, relative to the largest output."""
    args, kwargs = as_call(example_input)
    require_callable(model, args, kwargs)
    trial = _double(model, args, kwargs)
    outputs = zip(trial.outputs, trial.with_weights(permutation.apply(tensors_of(trial.model))), strict=True)
    return float(torch.tensor([0.0, *(relative(x, y) for x, y in outputs)]).max())  # NaN if one is


def relative(x: Tensor, y: Tensor) -> float:
    """Largest difference, relative to the largest value of ``x``; NaN where a value is."""
    x, y = x.detach().double(), y.detach().double()
    return float((x - y).abs().max() / x.abs().max().clamp_min(1e-30)) if x.numel() else 0.0


@dataclass(frozen=True)
class _Trial:
    """A copy of a network, what it is called with and what it answers."""

    model: nn.Module
    args: Any
    kwargs: Any
    double: bool
    outputs: list[Tensor]

    @torch.no_grad()
    def with_weights(self, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        """What it answers with other weights."""
        return _run(with_tensors(self.model, tensors).eval(), self.args, self.kwargs, self.double)

    @torch.no_grad()
    def spent(self) -> list[Tensor]:
        """What it answers now, whatever was done to its weights; it may be changed by that and is of no use after."""
        return _run(self.model, self.args, self.kwargs, self.double)

    def change(self, tensors: Mapping[str, Tensor]) -> float | None:
        """How far other weights move the answer; ``None`` if they do not."""
        return error(self.outputs, self.with_weights(tensors))


@torch.no_grad()
def _changes(make: Callable[[], _Trial], spec: Spec, generator: torch.Generator) -> str | None:
    """Which part of the symmetry changes the outputs, if any does: all of it at once, and only then one by one."""
    factors = random_factors(spec, 0.5, 2.0, generator)
    permutation = _moving(Permutation.random(spec, generator))
    trial = make()
    _move(trial.model, permutation, factors)
    if (together := error(trial.outputs, trial.spent())) is None:
        return None
    trial = make()
    copy, tensors = trial.model, tensors_of(trial.model)
    if spec.scalings and (found := trial.change(rescale(tensors, spec, factors))) is not None:
        groups = sorted({s.group for s in spec.scalings})
        return f"positive scalings of groups {groups} of {type(copy).__name__} {_CHANGE.format(found)}"
    for root in dict.fromkeys(list(spec.lineage(g.name))[-1] for g in spec.free):
        family = {k: m for k, m in permutation.maps.items() if root in spec.lineage(k)}
        if (found := trial.change(Permutation(spec, family).apply(tensors))) is not None:
            return f"permuting group '{next(iter(family))}' of {type(copy).__name__} {_CHANGES.format(found)}"
    return f"permuting all groups of {type(copy).__name__} together {_CHANGES.format(together)}"


def _move(model: nn.Module, permutation: Permutation, factors: Sequence[Tensor]) -> None:
    """Permute and rescale the weights of a model inside it, one by one: new memory is what costs most."""
    tensors = tensors_of(model)
    for name, tensor in untied(tensors).items():
        tensor.data = permutation.permute(name, tensor.data)
    rescale(tensors, permutation.spec, factors, inplace=True)


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


def _double(model: nn.Module, args: Any, kwargs: Any, jitter: torch.Generator | None = None) -> _Trial:
    copy = double_copy(model, jitter)
    wide_args, wide_kwargs = _pytree.tree_map_only(
        Tensor, lambda t: t.double() if t.is_floating_point() else t, (args, kwargs)
    )
    try:
        return _Trial(copy, wide_args, wide_kwargs, True, call(copy, wide_args, wide_kwargs, double=True))
    except Exception:  # forward makes tensors of a dtype of its own: stay in the model's
        require_callable(model, args, kwargs)
        old = tensors_of(model)
        narrow = with_tensors(model, {k: v.to(old[k].dtype) for k, v in tensors_of(copy).items()}).eval()
        return _Trial(narrow, args, kwargs, False, call(narrow, args, kwargs))


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
def call(model: nn.Module, args: Any, kwargs: Any, *, double: bool = False) -> list[Tensor]:
    """The floating-point outputs of ``model`` in eval mode; random numbers, buffers and inputs stay as they are.

    Args:
        double: Whether casts inside forward keep float64.
    """
    return _run(shell(model).eval(), args, kwargs, double)


def _run(private: nn.Module, args: Any, kwargs: Any, double: bool) -> list[Tensor]:
    args, kwargs = _pytree.tree_map_only(Tensor, Tensor.clone, (args, kwargs))
    with AllDouble() if double else nullcontext(), OwnDraws():
        leaves = _pytree.tree_leaves(outputs_of(private(*args, **kwargs)))
    return [t for t in leaves if isinstance(t, Tensor) and t.is_floating_point()]


def require_callable(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise unless the example input is one that forward accepts."""
    try:
        call(model, args, kwargs)
    except Exception as error:
        shapes = [tuple(a.shape) if isinstance(a, Tensor) else a for a in (*args, *kwargs.values())]
        used = next((t.dtype for t in tensors_of(model).values() if t.is_floating_point()), torch.float32)
        dtype = "" if used == torch.get_default_dtype() else f", dtype={used}"
        raise ValueError(
            f"{type(model).__name__} cannot be called with the example input {shapes}: {error}\n"
            f"Pass one that forward accepts: wsgraph.trace(model, torch.randn(2, ...{dtype}))"
        ) from error
