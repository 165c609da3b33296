"""The Spec of a plain MLP or CNN from its state dict alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from torch import Tensor

from .ordering import how_it_reads, in_order
from .spec import Factor, Group, Param, Product, Spec, as_axis

_NORM_ROLES = {"weight": "norm_scale", "bias": "norm_shift", "running_mean": "mean", "running_var": "variance"}


def spec_of_state_dict(tensors: Mapping[str, Tensor]) -> Spec:
    """Read a chain of layers off a state dict.

    Each tensor of two or more dimensions is a layer that reads the one before it; a Linear that reads a multiple of a
    convolution's width is taken for one after Flatten (channel-major, as PyTorch does it). One-axis tensors are biases
    and norms of the layer they follow. Activations are not in a state dict, and neither are residual connections: for
    anything but a plain chain, trace the module instead. Where names suggest residual blocks, nothing is guessed.
    """
    tensors = in_order(tensors)
    layers = [name for name, t in tensors.items() if t.dim() >= 2]
    if not layers:
        raise ValueError("the state dict has no weight of two or more dimensions, so there is nothing to align")
    first = tensors[layers[0]]
    here = Group("input", first.shape[1], "network input", shape=(first.shape[1],))
    groups, params, weight = [here], [], ""
    widths: dict[str, tuple[int, int]] = {}
    for name, tensor in tensors.items():
        prefix, _, kind = name.rpartition(".")
        if name in layers:
            axes, depthwise = _layer_axes(name, tensor, here, tensors.get(weight))
            widths[name] = (here.size, tensor.shape[0])
            if not depthwise:
                here = _next_group(name, prefix, tensor, last=name == layers[-1])
                groups.append(here)
            params.append(_param(name, (here.name, *axes), "weight", reads=None if depthwise else 1))
            weight = name
        elif tensor.dim() == 1 and tensor.shape[0] == here.size:
            own = f"{prefix}.weight" == weight or name == f"{weight}_bias"
            if not own and weight and tensors[weight].dim() > 2 and prefix != weight.rpartition(".")[0]:
                _require_batch_norm(prefix, tensors)
            role = "bias" if own else _NORM_ROLES.get(kind, "other")
            params.append(_param(name, (here.name,), role, block=weight or None))
        elif tensor.dim() == 0 or kind == "num_batches_tracked":
            params.append(_param(name, tuple(tensor.shape)))
        else:
            raise ValueError(
                _unreadable(name, tensor, f"it does not fit the {here.size} outputs of '{weight or 'input'}'")
            )
    _require_no_blocks(widths)
    return Spec(groups, params)


def _require_no_blocks(widths: Mapping[str, tuple[int, int]]) -> None:
    """Raise if a module of several layers returns as much as it reads: it may add the two, and tensors do not tell.

    A list of layers beside others (``hidden.0``, ``hidden.1``) is how plain networks are written, and passes.

    Args:
        widths: Weight of a layer → what it reads and returns, in order.
    """
    paths = {name: name.split(".")[:-1] for name in widths}
    shared = sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*paths.values(), strict=False)))
    for block in dict.fromkeys(tuple(path[:k]) for path in paths.values() for k in range(shared + 1, len(path))):
        inside = [name for name, path in paths.items() if tuple(path[: len(block)]) == block]
        alone = len(block) == shared + 1 and not block[-1].isdigit()
        a_list = alone and all("".join(paths[name][len(block) :]).isdigit() for name in inside)
        if len(inside) > 1 and not a_list and widths[inside[0]][0] == widths[inside[-1]][1]:
            raise ValueError(
                f"cannot read the architecture off the state dict: '{'.'.join(block)}' ({', '.join(inside)}) reads and "
                f"returns {widths[inside[0]][0]} values; it may be a residual block, which adds the two, and tensors "
                "do not tell. Pass the module, to_graph(model), or spec=."
            )


def _param(name: str, axes: tuple[Factor | Product, ...], role: str = "other", **kwargs: Any) -> Param:
    return Param(name, tuple(map(as_axis, axes)), role, **kwargs)


def _next_group(name: str, prefix: str, tensor: Tensor, last: bool) -> Group:
    size = tensor.shape[0]
    if last:
        return Group("output", size, "network output", shape=(size,))
    return Group(prefix or name, size, activation="unknown")


def _layer_axes(
    name: str, tensor: Tensor, here: Group, before: Tensor | None
) -> tuple[tuple[str | int | Product, ...], bool]:
    """Axes after the first, and whether the layer is a depthwise convolution."""
    _, inputs, *kernel = tensor.shape
    how = how_it_reads(tensor, here.size, before)
    if how == "flattened":
        positions = inputs // here.size
        side = math.isqrt(positions)
        grid = (side, side) if side * side == positions else (positions,)
        return ((here.name, *grid),), False
    if how is None:
        raise ValueError(_unreadable(name, tensor, f"it does not read the {here.size} outputs of the layer before it"))
    return (here.name if how == "plain" else 1, *kernel), how == "depthwise"


def _require_batch_norm(module: str, tensors: Mapping[str, Tensor]) -> None:
    """A norm of maps that keeps no statistics may be GroupNorm, whose channels do not move freely."""
    if f"{module}.running_mean" not in tensors:
        raise ValueError(
            f"cannot read the architecture off the state dict: '{module}' scales the channels of a convolution and has "
            "no running statistics; it may be GroupNorm or LayerNorm, which have different symmetries and equal "
            "tensors. Pass the module, to_graph(model), or spec="
        )


def square_convolutions(tensors: Mapping[str, Tensor]) -> list[str]:
    """Weights of convolutions that have as many inputs as outputs: a transposed one has them in the other order."""
    return [name for name, t in tensors.items() if t.dim() > 2 and t.shape[0] == t.shape[1] > 1]


def _unreadable(name: str, tensor: Tensor, why: str) -> str:
    return (
        f"cannot read the architecture off the state dict: '{name}' has shape {tuple(tensor.shape)}, and {why}. "
        "A state dict is enough for a plain chain of layers only; pass the module, to_graph(model), or spec=."
    )
