r"""Networks that read images in a mirror: f(mirror(x); mirror(v)) = f(x; v).

Where a mirrored image is as good an image, as in photographs and not in digits, the mirror image of a network that was
trained is as good a network, and another one: its weights are near those of no other.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .blocks import group_of
from .ties import map_tied

if TYPE_CHECKING:
    from .graph import WeightGraph
    from .spec import Axis, Factor, Param, Spec


def mirror(graph: WeightGraph) -> WeightGraph:
    """The network that says of mirrored images what this one says of the images.

    Kernels turn their columns round, and so does every layer that reads or writes a flattened image or map. Exact where
    convolutions and poolings treat both sides alike: padded on both, and with a stride that leaves nothing over on one.

    Raises:
        ValueError: The network has nothing that has two sides.
    """

    def mirrored(name: str, tensor: Tensor) -> Tensor:
        for dim, order in _orders(graph.spec, graph.spec.params[name]).items():
            tensor = tensor.index_select(dim, order.to(tensor.device))
        return tensor

    if not any(_orders(graph.spec, param) for param in graph.spec.params.values()):
        raise ValueError(
            "nothing to mirror: the network has no kernel of two dimensions, and no layer that is known to read an "
            "image or a map; expected a network of images, traced with an image (to_graph(model, example_input))"
        )
    return graph.replace(map_tied(graph.tensors, mirrored))


def _orders(spec: Spec, param: Param) -> dict[int, Tensor]:
    """Where the elements of each dimension come from; dimensions that stay are left out."""
    found = {dim: order for dim, axis in enumerate(param.axes) if (order := _order(spec, axis)) is not None}
    taps = [dim for dim, axis in enumerate(param.axes) if all(isinstance(f, int) for part in axis.parts for f in part)]
    if param.reads is not None and len(taps) >= 2:  # one dimension alone is time, which has no mirror
        found[taps[-1]] = torch.arange(spec.axis_size(param.axes[taps[-1]])).flip(0)
    return found


def _order(spec: Spec, axis: Axis) -> Tensor | None:
    """The order of an axis on which images or maps are laid out; ``None`` if none are."""
    orders, start, turned = [], 0, False
    for part in axis.parts:
        layout = [(size, place) for factor in part for size, place in _layout(spec, factor)]
        sides = [k for k, (_, place) in enumerate(layout) if place]
        order = torch.arange(prod(size for size, _ in layout)).reshape([size for size, _ in layout])
        if len(sides) >= 2:
            order, turned = order.flip(sides[-1]), True
        orders.append(start + order.flatten())
        start += order.numel()
    return torch.cat(orders) if turned else None


def _layout(spec: Spec, factor: Factor) -> list[tuple[int, bool]]:
    """How a factor's elements lie: sizes, and whether they are those of an image or map."""
    shape = () if isinstance(factor, int) else spec.groups[group_of(factor)].shape
    if len(shape) >= 2:
        return [(size, True) for size in shape]
    return [(spec.factor_size(factor), isinstance(factor, int))]
