"""A picture of a small network: one column per group, edges coloured by sign."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .graph import WeightGraph
    from .spec import Group

SHOWN = 12
"""Neurons drawn per group; the rest are an ellipsis."""
POSITIVE, NEGATIVE, NODE, PINNED = "#0072B2", "#D55E00", "#FFFFFF", "#DDDDDD"


def draw(graph: WeightGraph, path: str | os.PathLike[str]) -> None:
    """Save a picture of ``graph`` (PNG, SVG or PDF by the ending).

    Columns are groups in order of execution, circles their first neurons (grey: pinned); a line is a weight, blue if
    positive and orange if negative, the thicker the larger within its parameter. Depthwise kernels are not drawn.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    spec = graph.spec
    columns = {name: k for k, name in enumerate(spec.groups)}
    tallest = max(min(group.size, SHOWN) for group in spec.groups.values())
    figure = Figure(figsize=(1.8 * len(columns) + 1, 0.35 * tallest + 1.6), layout="constrained")
    axes = figure.subplots()
    for block, view in graph.blocks:
        if block.source is None:
            continue
        weights = view.detach().float().cpu().sum(-1).numpy()[:SHOWN, :SHOWN]
        top = np.abs(weights).max() or 1.0
        ends, widths, colours = [], [], []
        for (i, j), w in np.ndenumerate(weights):
            a = (columns[block.source], _height(spec.groups[block.source], j))
            b = (columns[block.target], _height(spec.groups[block.target], i))
            ends.append([a, b])
            widths.append(0.15 + 1.6 * abs(w) / top)
            colours.append(POSITIVE if w >= 0 else NEGATIVE)
        axes.add_collection(LineCollection(ends, linewidths=widths, colors=colours, alpha=0.6, zorder=1))
    for name, group in spec.groups.items():
        shown = min(group.size, SHOWN)
        heights = [_height(group, i) for i in range(shown)]
        colour = PINNED if group.pinned else NODE
        axes.scatter([columns[name]] * shown, heights, s=110, c=colour, edgecolors="black", zorder=2)
        if group.size > SHOWN:
            axes.text(columns[name], min(heights) - 1.1, "⋮", ha="center", va="center", fontsize=16)
        activation = "" if group.activation == "identity" else f"\n{group.activation}"
        axes.text(
            columns[name], tallest / 2 + 0.3, f"{name}\n{group.size}{activation}", ha="center", va="bottom", fontsize=9
        )
    axes.set_xlim(-0.6, len(columns) - 0.4)
    axes.set_ylim(-tallest / 2 - 1.4, tallest / 2 + 3.0)
    axes.axis("off")
    figure.savefig(path, dpi=150)


def _height(group: Group, index: int) -> float:
    """Vertical position of a neuron: columns are centred."""
    return (min(group.size, SHOWN) - 1) / 2 - index
