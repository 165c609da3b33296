"""All figures in one style: readable labels, colours that survive colour blindness, PNG and SVG.

Every function takes the path of its picture. Given ``folder/name.png`` it writes ``folder/name.svg`` beside it, and the
other way round; the folder is made where there is none. :func:`add_output` lets a script ask for that path.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler
from matplotlib.ticker import LogLocator, NullFormatter
from torch import Tensor

if TYPE_CHECKING:
    from .barrier import Barrier

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""The Okabe-Ito palette."""
MARKERS = ("o", "s", "D", "^", "v", "P", "*", "X")
"""One per colour, so that curves differ in a grey print too."""
SEQUENTIAL = "cividis"
"""From low to high: looks alike with and without colour blindness."""

STYLE: dict[Any, Any] = {
    "font.size": 11,
    "figure.titlesize": 13,
    "axes.titlesize": 11,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(linestyle=["-", "--"]) * (cycler(color=COLOURS) + cycler(marker=MARKERS)),
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "lines.markersize": 4,
    "savefig.dpi": 150,
    "svg.fonttype": "none",  # text stays text: it can be searched, and read aloud
    "svg.hashsalt": "align",  # the same picture is the same file
}
SHOWN_MARKERS = 25
"""Markers per curve, at most."""
TOWERING = 4
"""A curve this many times as high as the next one hides what the others do."""


def add_output(parser: argparse.ArgumentParser, script: str) -> None:
    """Add the option ``--output``: where the script's picture goes. In a folder it is named after the script.

    Args:
        parser: Of the script's options.
        script: Its ``__file__``.
    """
    known = Figure().canvas.get_supported_filetypes()

    def picture(text: str) -> Path:
        path = Path(text)
        if path.is_dir() or not path.suffix:
            return path / f"{Path(script).stem}.png"
        if path.suffix[1:].lower() not in known:
            raise argparse.ArgumentTypeError(f"{text} is neither a folder nor a picture (.png, .svg or .pdf)")
        return path

    text = "a picture (.png; an .svg is written beside it) or a folder; default: %(default)s"
    parser.add_argument("--output", type=picture, default="outputs", metavar="PATH", help=text)


def plot_lines(curves: Mapping[str, Barrier], path: str | os.PathLike[str], title: str = "") -> None:
    """Loss along the line between two networks, one curve per method; the mean over pairs with a band of one s.e.

    Where one curve towers over the others, a second panel shows those closer.
    """
    closer = _second_peak(curves)
    panels = {"": curves} if closer is None else {"all": curves, "closer": curves}
    with _picture(path, 4.2 + 3.2 * len(panels), 4.2, title) as figure:
        row = figure.subplots(1, len(panels), squeeze=False)[0]
        _lines(row, panels)
        if closer is not None:
            row[-1].set_ylim(*closer)


def plot_line_panels(
    panels: Mapping[str, Mapping[str, Barrier]], path: str | os.PathLike[str], title: str = ""
) -> None:
    """Several :func:`plot_lines` side by side on one scale, such as one per architecture.

    Args:
        panels: Title of the panel → method → curve.
    """
    with _picture(path, 4.2 + 3.2 * len(panels), 4.2, title) as figure:
        _lines(figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels)


def plot_curves(
    curves: Mapping[str, tuple[Any, Any]],
    path: str | os.PathLike[str],
    x: str,
    y: str,
    title: str = "",
    scale: str = "linear",
) -> None:
    """Any quantity over another: the barrier over iterations, a signal over time.

    Args:
        curves: Label → x values and y values.
        x: What the horizontal axis shows.
        y: What the vertical axis shows.
        scale: Of the vertical axis, ``linear`` or ``log``.
    """
    with _picture(path, 7.4, 4.2, title) as figure:
        axes = figure.subplots()
        for label, (across, up) in curves.items():
            _line(axes, across, up, label)
        axes.set(xlabel=x, ylabel=y, yscale=scale)
        if scale == "log":
            axes.yaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), major_formatter="{x:g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
        _legend_beside(axes)


def plot_permutations(
    pairs: Mapping[str, tuple[Tensor, Tensor, Tensor]], path: str | os.PathLike[str], title: str = ""
) -> None:
    """What an aligner says of some neurons, what is made of it, and what is true: one row per pair of networks.

    Args:
        pairs: Label of the row → scores ``[n, n]``, the permutation found and the true one, as index tensors ``[n]``.
    """
    with _picture(path, 7.6, 0.6 + 2.5 * len(pairs), title) as figure:
        rows = figure.subplots(len(pairs), 3, squeeze=False)
        for row, (label, (scores, found, truth)) in zip(rows, pairs.items(), strict=True):
            right = found == truth
            shown = row[0].imshow(scores.numpy(force=True), cmap=SEQUENTIAL)
            figure.colorbar(shown, ax=row[0], shrink=0.8)
            _matrix(row[1], found, right)
            _matrix(row[2], truth, torch.ones_like(right))
            row[0].set_ylabel(f"{label}\nneuron of a")
            row[1].set_title(f"{int(right.sum())} of {len(right)} right")
            for axes in row:
                _bare(axes)
        for axes, name in zip(rows[0], ("scores", "prediction", "ground truth"), strict=True):
            axes.set_title(f"{name}\n{axes.get_title()}".strip())
        for axes in rows[-1]:
            axes.set_xlabel("neuron of b")


def plot_map(maps: Mapping[str, Tensor], labels: Sequence[str], path: str | os.PathLike[str], title: str = "") -> None:
    """Networks as points of the plane, near where they are alike; one panel per way to measure.

    Args:
        maps: Title of the panel → points ``[n, 2]`` (see :func:`align.distance.plane`).
        labels: What each network is, which chooses colour and marker.
    """
    with _picture(path, 1.2 + 3.9 * len(maps), 4.6, title) as figure:
        row = figure.subplots(1, len(maps), squeeze=False)[0]
        for axes, (name, points) in zip(row, maps.items(), strict=True):
            for label, style in zip(dict.fromkeys(labels), STYLE["axes.prop_cycle"](), strict=False):
                chosen = points[[k for k, other in enumerate(labels) if other == label]]
                axes.scatter(*chosen.T, s=42, color=style["color"], marker=style["marker"], label=label, alpha=0.85)
            axes.set_title(name)
            axes.set_aspect("equal", adjustable="datalim")
            _bare(axes)
        figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)


def plot_images(images: Mapping[str, Tensor], path: str | os.PathLike[str], title: str = "") -> None:
    """Images ``[H, W]`` side by side on one scale from black to white, each under its label."""
    held = {label: image.numpy(force=True) for label, image in images.items()}
    low, high = min(image.min() for image in held.values()), max(image.max() for image in held.values())
    with _picture(path, 2.1 * len(images), 2.7, title) as figure:
        row = figure.subplots(1, len(images), squeeze=False)[0]
        for axes, (label, image) in zip(row, held.items(), strict=True):
            axes.imshow(image, cmap="gray", vmin=low, vmax=high)
            axes.set_title(label)
            _bare(axes)


@contextmanager
def _picture(path: str | os.PathLike[str], width: float, height: float, title: str) -> Iterator[Figure]:
    """A figure in the common style, written when the block ends."""
    with rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        if title:
            figure.suptitle(title)
        yield figure
        _save(figure, Path(path))


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for ending in {path.suffix or ".png", ".png", ".svg"}:
        figure.savefig(path.with_suffix(ending), metadata={"Date": None} if ending == ".svg" else None)


def _lines(row: Sequence[Axes], panels: Mapping[str, Mapping[str, Barrier]]) -> None:
    for axes, (name, curves) in zip(row, panels.items(), strict=True):
        for label, curve in curves.items():
            _mean_line(axes, curve, label)
        axes.set(title=name, xlabel="λ   (0: network b, 1: network a)")
    row[0].set_ylabel("loss of λ·a + (1 − λ)·b")
    _legend_beside(row[-1])


def _second_peak(curves: Mapping[str, Barrier]) -> tuple[float, float] | None:
    """Limits that show all curves but the highest, if that one hides what they do."""
    means = [torch.atleast_2d(curve.loss).mean(0) for curve in curves.values()]
    low, peaks = float(min(m.min() for m in means)), sorted(float(m.max()) for m in means)
    if len(peaks) < 3 or peaks[-1] - low < TOWERING * (peaks[-2] - low):
        return None
    margin = 0.08 * (peaks[-2] - low)
    return low - margin, peaks[-2] + margin


def _mean_line(axes: Axes, curve: Barrier, label: str) -> None:
    loss = torch.atleast_2d(curve.loss)
    mean = loss.mean(0)
    colour = _line(axes, curve.points, mean, label)
    if len(loss) > 1:
        band = loss.std(0) / len(loss) ** 0.5
        axes.fill_between(curve.points, mean - band, mean + band, color=colour, alpha=0.2, linewidth=0)


def _line(axes: Axes, x: Any, y: Any, label: str) -> Any:
    """A curve in the next colour, which is returned."""
    return axes.plot(x, y, label=label, markevery=-(-len(x) // SHOWN_MARKERS))[0].get_color()


def _legend_beside(axes: Axes) -> None:
    """A legend to the right, where it hides no curve."""
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _matrix(axes: Axes, index: Tensor, right: Tensor) -> None:
    """P[i, idx[i]] = 1 as dots on white: blue where right, orange where wrong."""
    matrix = torch.zeros(len(index), len(index))
    matrix[torch.arange(len(index)), index] = torch.where(right, 1.0, 2.0)
    axes.imshow(matrix.numpy(), cmap=ListedColormap(["white", COLOURS[0], COLOURS[1]]), vmin=0, vmax=2)


def _bare(axes: Axes) -> None:
    """A frame without numbers: positions say nothing by themselves."""
    axes.grid(False)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
