"""All figures in one style: readable labels, colours that survive colour blindness, PNG and SVG."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .barrier import Barrier

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""The Okabe-Ito palette."""


def plot_lines(curves: Mapping[str, Barrier], path: str | os.PathLike[str], title: str = "") -> None:
    """Loss along the line between two networks, one curve per method; the mean over pairs with a band of one s.e."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for k, (label, curve) in enumerate(curves.items()):
        loss = curve.loss if curve.loss.dim() > 1 else curve.loss[None]
        x, mean = curve.points.numpy(), loss.mean(0)
        axes.plot(x, mean.numpy(), color=COLOURS[k % len(COLOURS)], marker="o", markersize=3, label=label)
        if len(loss) > 1:
            band = loss.std(0) / len(loss) ** 0.5
            axes.fill_between(
                x, (mean - band).numpy(), (mean + band).numpy(), color=COLOURS[k % len(COLOURS)], alpha=0.2
            )
    axes.set_xlabel("λ   (0: network b, 1: network a)")
    axes.set_ylabel("loss of λ·a + (1 − λ)·b")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
