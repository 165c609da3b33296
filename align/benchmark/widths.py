"""A narrow and a wide network, merged into the size of either: accuracy beside the parents', and beside plain cutting.

Both kinds are trained from different seeds (zoos in the cache folder). The wide network is cut to the narrow one's
size, to the neurons that were matched or to those with the largest weights, and the two are averaged in either size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsgraph import WeightGraph, to_graph
from wsgraph.modules import tensors_of
from wsgraph.shell import shell

from ..alignment import Alignment
from ..data.dataset import Split
from ..judging.compare import share_with_error
from ..matching import match
from ..merging.merge import merge
from ..methods.registry import takes
from ..running.outputs import evaluate
from ..zoo import Recipe, Zoo, ZooConfig, build
from .sheet import Sheet

METHODS = ("weight_matching", "covariance_matching", "activation_matching", "deep_align")
SIZES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "mlp": ({"hidden": [32, 32]}, {"hidden": [64, 64]}),
    "cnn": ({"width": 0.25}, {"width": 0.5}),
}
"""Architecture → what makes it narrow, and wide."""
EPOCHS = {"digits": 20, "fashion_mnist": 2}
IMAGES = 2_000
"""For methods that run the networks, and for REPAIR."""


def compare(arch: str, data: str, pairs: int) -> None:
    """Print accuracies on the test set, mean and standard error over pairs."""
    narrow, wide = (_zoo(arch, data, args, pairs) for args in SIZES[arch])
    found: dict[str, list[tuple[float, float | None]]] = {}
    for k in range(pairs):
        for name, accuracies in judged(narrow, wide, k).items():
            found.setdefault(name, []).append(accuracies)
    title = f"{arch} on {data}, {pairs} pairs: accuracy on the test set"
    sheet = Sheet(f"widths/{arch}-{data}", title, ("network", "as it is", "with REPAIR"))
    for name, values in found.items():
        sheet.add(name, *(_shown([v[c] for v in values]) for c in (0, 1)))
    sheet.close()


def _zoo(arch: str, data: str, args: dict[str, Any], pairs: int) -> Zoo:
    shape = {"digits": (1, 8, 8), "fashion_mnist": (1, 28, 28)}[data]
    config = ZooConfig(
        f"{arch}-widths", arch, {"inputs": shape, **args}, data=data, recipe=Recipe(EPOCHS[data], 64), together=1
    )
    return build(config, pairs, workers=1)


def judged(narrow: Zoo, wide: Zoo, k: int) -> dict[str, tuple[float, float | None]]:
    """What was made of the k-th narrow and the k-th wide network → accuracy as it is, and with REPAIR."""
    small, large, task = narrow.module(k), wide.module(k), narrow.task
    images, test = task.samples("train")[0][:IMAGES], task.samples("test")

    def results(a: nn.Module, b: nn.Module, alignment: Alignment, weights: tuple[float, float]) -> tuple[float, float]:
        made = merge(a, b, alignment=alignment, weights=weights)
        mended = merge(a, b, alignment=alignment, weights=weights, repair="repair", data=images)
        return _accuracy(made, test), _accuracy(mended, test)

    out: dict[str, tuple[float, float | None]] = {
        "narrow network": (_accuracy(small, test), None),
        "wide network": (_accuracy(large, test), None),
    }
    graphs = to_graph(small, images[:2]), to_graph(large, images[:2])
    loudest = Alignment(*graphs, maps=strongest(*graphs), method="magnitude")
    out["wide cut to its strongest neurons"] = results(small, large, loudest, (0, 1))
    for method in METHODS:
        options: dict[str, Any] = {"example_input": images[:2], **({"data": images} if takes(method, "data") else {})}
        down, up = match(small, large, method, **options), match(large, small, method, **options)
        out[f"wide cut, {method}"] = results(small, large, down, (0, 1))
        out[f"both in the narrow one, {method}"] = results(small, large, down, (1, 1))
        out[f"both in the wide one, {method}"] = results(large, small, up, (1, 1))
    return out


def strongest(narrow: WeightGraph, wide: WeightGraph) -> dict[str, Tensor]:
    """For every group the wide network's neurons with the largest weights, as many as the narrow one has."""
    maps = {}
    for group in narrow.spec.free:
        size = torch.zeros(wide.spec.groups[group.name].size)
        for piece in wide.spec.pieces:
            for place in piece.places:
                if place.group == group.name:
                    size += piece.rows(wide.tensors[piece.param].detach(), place).square().sum(1)
        maps[group.name] = size.topk(group.size).indices.sort().values
    return maps


def _accuracy(model: nn.Module, data: Split) -> float:
    accuracy = evaluate(shell(model).eval(), [tensors_of(model)], F.cross_entropy, data)[1]
    assert accuracy is not None
    return float(accuracy)


def _shown(values: list[float | None]) -> str:
    numbers = torch.tensor([v for v in values if v is not None])
    return share_with_error(numbers) if len(numbers) else ""
