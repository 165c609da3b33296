"""Average networks that lie in one basin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import torch
from torch import Tensor, nn

from wsgraph import WeightGraph, to_graph
from wsgraph.checkpoints import AnyPath, opened
from wsgraph.modules import tensors_of, with_tensors
from wsgraph.weights import require_weights
from wsgraph.widths import fitted

from ..alignment import Alignment, several
from ..methods.registry import METHODS
from ..running.batches import Samples
from ..running.batchnorm import reset_batchnorm
from ..running.likeness import require_alike, require_same_tensors
from ..running.networks import require_modules
from .repair import repair as apply_repair
from .scale import match_scale

REPAIRS = ("none", "batchnorm", "repair")


Alignments = Alignment | Sequence[Alignment] | None


@overload
def merge(
    *models: nn.Module,
    alignment: Alignments = None,
    weights: Sequence[float] | None = None,
    repair: str = "none",
    data: Samples = None,
    scale: bool = False,
) -> nn.Module: ...
@overload
def merge(
    *models: Mapping[str, Tensor],
    alignment: Alignments = None,
    weights: Sequence[float] | None = None,
    scale: bool = False,
) -> dict[str, Tensor]: ...
@overload
def merge(
    *models: AnyPath,
    alignment: Alignments = None,
    weights: Sequence[float] | None = None,
    repair: str = "none",
    data: Samples = None,
    scale: bool = False,
) -> Any: ...


@torch.no_grad()
def merge(
    *models: Any,
    alignment: Alignments = None,
    weights: Sequence[float] | None = None,
    repair: str = "none",
    data: Samples = None,
    scale: bool = False,
) -> nn.Module | dict[str, Tensor]:
    """The (weighted) average of two or more networks: a new module, or a state dict of state dicts.

    Args:
        models: The networks, all modules or all state dicts, or the paths of such; the first is the reference.
        alignment: How the second network (or, as a sequence, each of the others) is permuted first. Without it they are
            averaged as they are. Networks of other widths are brought to the size of the first: a narrow one is
            widened, and computes the same; a wide one is cut to its matched neurons. ``weights=(0, 1)`` gives it alone.
        weights: One per model; equal by default. They are normalised to sum to 1.
        repair: ``batchnorm`` measures BatchNorm statistics anew, ``repair`` restores every layer's mean and standard
            deviation as well; both run the networks, so they need modules and ``data``.
        data: Inputs for the repair.
        scale: First rescale the neurons of the others to those of the first where this keeps the function (ReLU).
    """
    if len(models) < 2:
        raise ValueError(f"merge needs at least two models, got {len(models)}")
    for model in models:
        named = isinstance(model, str) and model.split("+")[0] in METHODS
        if named or isinstance(model, Alignment):
            raise TypeError(
                f"merge averages all its positional arguments, got {model!r} among them; to align first, pass "
                f"alignment={f'align.match(a, b, {model!r})' if named else 'that'}"
            )
    models = tuple(opened(model) for model in models)
    bare = all(isinstance(model, Mapping) for model in models)
    if not bare or repair != "none":
        require_modules("merge averages modules, or state dicts without repair", models)
    if repair not in REPAIRS:
        raise ValueError(f"repair '{repair}' is not one of {REPAIRS}")
    if repair != "none" and data is None:
        raise ValueError(f"repair='{repair}' measures activations: pass data=inputs")
    found = several(alignment, len(models) - 1)
    aligned = [models[0], *(_moved(x, models[0], model) for x, model in zip(found, models[1:], strict=True))]
    _require_states_alike(aligned) if bare else require_alike(aligned, data)
    if scale:
        aligned = [aligned[0], *(_scaled(aligned[0], m, x) for m, x in zip(aligned[1:], found, strict=True))]
    shares = _shares(weights, len(models))
    held = [m if bare else tensors_of(m) for m in aligned]
    average = {k: _average([h[k] for h in held], shares) for k in held[0]}
    if bare:
        return average
    merged = with_tensors(models[0], average)
    if repair == "batchnorm":
        return reset_batchnorm(merged, None, data)
    if repair != "repair":
        return merged
    whole = [models[0], *(aligned[k + 1] if x is None or x.square else models[k + 1] for k, x in enumerate(found))]
    return apply_repair(merged, whole, data, shares, found)


def _require_states_alike(states: Sequence[Mapping[str, Tensor]]) -> None:
    for state in states:
        require_weights(state)
        require_same_tensors(states[0], state)


def _moved(alignment: Alignment | None, reference: Any, model: Any) -> Any:
    """A network permuted to match the reference or, where widths differ, brought to its size."""
    if alignment is None:
        return model
    if alignment.square:
        return alignment.apply(model)
    bare = isinstance(model, Mapping)
    own, tensors = (reference, model) if bare else (tensors_of(reference), tensors_of(model))
    new = fitted(tensors, alignment.b.spec, own, alignment.a.spec, alignment.maps)
    return new if bare else with_tensors(reference, new)


def _scaled(reference: Any, model: Any, alignment: Alignment | None) -> Any:
    spec = None if alignment is None else alignment.a.spec
    a: WeightGraph = to_graph(reference, spec=spec, verify=spec is None)
    b = to_graph(model, spec=a.spec, verify=False)
    scaled = match_scale(a, b).tensors
    return with_tensors(model, scaled) if isinstance(model, nn.Module) else scaled


def _shares(weights: Sequence[float] | None, count: int) -> list[float]:
    if weights is None:
        return [1 / count] * count
    if len(weights) != count or sum(weights) == 0:
        raise ValueError(f"{count} models need {count} weights with a sum other than 0, got {list(weights)}")
    return [w / sum(weights) for w in weights]


def _average(tensors: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    if not tensors[0].is_floating_point():
        return tensors[0].clone()
    wide = sum(share * t.detach().double() for share, t in zip(shares, tensors, strict=True))
    return wide.to(tensors[0].dtype)  # type: ignore[union-attr]
