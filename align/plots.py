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
from textwrap import fill
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.rcsetup import cycler
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

if TYPE_CHECKING:
    from torch import Tensor

    from .judging.barrier import Barrier

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""The Okabe-Ito palette."""
MARKERS = ("o", "s", "D", "^", "v", "P", "*", "X")
"""One per colour, so that curves differ in a grey print too."""
LINESTYLES = ("-", "--", "-.", ":")
"""In turn, so that of two curves that coincide both are seen: broken ones are drawn over solid ones."""
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
    "axes.prop_cycle": cycler(color=COLOURS * 2)
    + cycler(marker=MARKERS * 2)
    + cycler(linestyle=LINESTYLES * 2 + tuple(reversed(LINESTYLES)) * 2),
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "lines.markersize": 4,
    "savefig.dpi": 150,
    "svg.fonttype": "none",  # text stays text: it can be searched, and read aloud
    "svg.hashsalt": "align",  # the same picture is the same file
}
BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
"""A legend to the right, where it hides no curve."""
SHOWN_MARKERS = 9
"""Markers per curve, about."""
PANEL, SMALLEST_DOT = 125.0, 3.0
"""Side of a drawn permutation, and of a dot in it at least; in points."""
TOWERING = 4
"""A curve this many times as high as the next one hides what the others do."""


def add_output(parser: argparse.ArgumentParser, script: str) -> None:
    """Add the option ``--output``: where the script's picture goes. In a folder it is named after the script.

    Args:
        parser: Of the script's options.
        script: Its ``__file__``.
    """

    def picture(text: str) -> Path:
        path, known = Path(text), Figure().canvas.get_supported_filetypes()
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
    closer = _closer(curves)
    panels = {"": curves} if closer is None else {"all": curves, "closer": curves}
    with _picture(path, 4.2 + 3.2 * len(panels), 4.2, title) as figure:
        row = figure.subplots(1, len(panels), squeeze=False)[0]
        _lines(row, panels)
        if closer is not None:
            row[-1].set_ylim(*closer)
        row[-1].legend(title=_band(curves, ",\n"), **BESIDE)


def plot_line_panels(
    panels: Mapping[str, Mapping[str, Barrier]], path: str | os.PathLike[str], title: str = ""
) -> None:
    """Several :func:`plot_lines` side by side on one scale, such as one per architecture.

    Where one curve towers over the others, a second row shows those closer, each panel on its own scale.

    Args:
        panels: Title of the panel → method → curve.
    """
    rows = 1 if all(_closer(curves) is None for curves in panels.values()) else 2
    width = 0.9 + 3.1 * len(panels)
    with _picture(path, width, 1.1 + 3.1 * rows, title) as figure:
        grid = figure.subplots(rows, len(panels), squeeze=False)
        _lines(grid[0], panels)
        for axes in grid[0][1:]:
            axes.sharey(grid[0][0])
            axes.tick_params(labelleft=False)
        if rows == 2:
            _lines(grid[1], {f"{name}, closer": curves for name, curves in panels.items()})
            for axes, curves in zip(grid[1], panels.values(), strict=True):
                axes.set_ylim(*_closer(curves, towering=0) or (None, None))
        handles, labels = grid[0][0].get_legend_handles_labels()
        below: dict[str, Any] = {"loc": "outside lower center", "ncols": _columns(labels, width)}
        figure.legend(handles, labels, title=_band(next(iter(panels.values()))), **below)


def plot_curves(
    curves: Mapping[str, tuple[Any, Any]],
    path: str | os.PathLike[str],
    x: str,
    y: str,
    title: str = "",
    scale: str = "linear",
    target: str = "",
) -> None:
    """Any quantity over another: the barrier over iterations, a signal over time. Counts have no ticks in between.

    Args:
        curves: Label → x values and y values.
        x: What the horizontal axis shows.
        y: What the vertical axis shows.
        scale: Of the vertical axis, ``linear`` or ``log``.
        target: Label of the curve that the others are held against, a thick black line beneath them.
    """
    with _picture(path, 7.4, 4.2, title) as figure:
        axes = figure.subplots()
        for label, (across, up) in curves.items():
            if label == target:
                axes.plot(across, up, label=label, color="black", linewidth=4, linestyle="-", marker="", zorder=1.9)
            else:
                _line(axes, across, up, label)
        axes.set(xlabel=x, ylabel=f"{y} (log scale)" if scale == "log" else y, yscale=scale)
        if all(isinstance(value, int) for across, _ in curves.values() for value in across):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if scale == "log":
            low, high = axes.get_ylim()
            subs = (1, 2, 5) if high > 100 * low else (1, 2, 3, 4, 5, 7)
            axes.yaxis.set(major_locator=LogLocator(subs=subs, numticks=99), major_formatter="{x:g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
        axes.legend(**BESIDE)


def plot_permutations(
    pairs: Mapping[str, tuple[Tensor, Tensor, Tensor]], path: str | os.PathLike[str], title: str = ""
) -> None:
    """What an aligner says of some neurons, what is made of it, and what is true: one row per pair of networks.

    Neurons of b are ordered by their true partners, so the truth is the diagonal, and errors are what lies off it.

    Args:
        pairs: Label of the row → scores ``[n, n]``, the permutation found and the true one, as index tensors ``[n]``.
    """
    with _picture(path, 7.6, 1.1 + 2.5 * len(pairs), title) as figure:
        rows = figure.subplots(len(pairs), 3, squeeze=False)
        for row, (label, (scores, found, truth)) in zip(rows, pairs.items(), strict=True):
            right = found == truth
            shown = row[0].imshow(scores[:, truth].numpy(force=True), cmap=SEQUENTIAL)
            figure.colorbar(shown, ax=row[0], shrink=0.8)
            partner = truth.argsort()  # neuron of b → its place in the order
            _dots(row[1], partner[found], right)
            _dots(row[2], partner[truth], right | True)
            row[0].set_ylabel(f"{label}\nneuron of a")
            row[1].set_title(f"{int(right.sum())} of {len(right)} right")
            for axes in row:
                _bare(axes)
        for axes, name in zip(rows[0], ("scores", "prediction", "ground truth"), strict=True):
            axes.set_title(f"{name}\n{axes.get_title()}".strip())
        for axes in rows[-1]:
            axes.set_xlabel("neuron of b,\nordered by true partner")
        marks = [
            Line2D([], [], color=colour, marker="s", linestyle="", label=label)
            for label, colour in zip(("right", "wrong"), COLOURS, strict=False)
        ]
        figure.legend(handles=marks, loc="outside lower center", ncols=2)


def plot_map(maps: Mapping[str, Tensor], labels: Sequence[str], path: str | os.PathLike[str], title: str = "") -> None:
    """Networks as points of the plane, near where they are alike; one panel per way to measure.

    Args:
        maps: Title of the panel → points ``[n, 2]`` (see :func:`align.judging.distance.plane`).
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


def plot_images(
    images: Mapping[str, Tensor],
    path: str | os.PathLike[str],
    title: str = "",
    captions: Mapping[str, str] | None = None,
) -> None:
    """Images ``[H, W]`` side by side on one scale from black to white, each under its label and above its caption."""
    held = {label: image.numpy(force=True) for label, image in images.items()}
    low, high = min(image.min() for image in held.values()), max(image.max() for image in held.values())
    with _picture(path, 2.1 * len(images), 2.9 if captions else 2.7, title) as figure:
        row = figure.subplots(1, len(images), squeeze=False)[0]
        for axes, (label, image) in zip(row, held.items(), strict=True):
            axes.imshow(image, cmap="gray", vmin=low, vmax=high)
            axes.set(title=label, xlabel=(captions or {}).get(label, ""))
            _bare(axes)


@contextmanager
def _picture(path: str | os.PathLike[str], width: float, height: float, title: str) -> Iterator[Figure]:
    """A figure in the common style, written when the block ends."""
    with rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        if title:
            figure.suptitle(fill(title, max(1, int(width / 0.1))))  # letters of a title are about 0.1 inches wide
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


def _band(curves: Mapping[str, Barrier], between: str = ", ") -> str | None:
    """What lines and bands are, where there are several pairs."""
    loss = next(iter(curves.values())).loss
    several = loss.dim() == 2 and len(loss) > 1
    return f"mean of {len(loss)} pairs{between}band: ± one standard error" if several else None


def _closer(curves: Mapping[str, Barrier], towering: float = TOWERING) -> tuple[float, float] | None:
    """Limits that show all curves but the highest, if that one hides what they do."""
    means = [_pairs(curve).mean(0) for curve in curves.values()]
    low, peaks = float(min(m.min() for m in means)), sorted(float(m.max()) for m in means)
    if len(peaks) < 3 or peaks[-1] - low < towering * (peaks[-2] - low):
        return None
    margin = 0.08 * (peaks[-2] - low)
    return low - margin, peaks[-2] + margin


def _pairs(curve: Barrier) -> Tensor:
    """Losses ``[pairs, points]``, of a single pair too."""
    return curve.loss.reshape(-1, len(curve.points))


def _columns(labels: Sequence[str], width: float) -> int:
    """Columns of a legend that fit into so many inches; letters are about 0.083 wide, and a handle is 0.75."""
    for rows in range(1, len(labels)):
        parts = [labels[k : k + rows] for k in range(0, len(labels), rows)]
        if sum(0.75 + 0.083 * max(map(len, part)) for part in parts) <= width:
            return len(parts)
    return 1


def _mean_line(axes: Axes, curve: Barrier, label: str) -> None:
    loss = _pairs(curve)
    mean = loss.mean(0)
    colour = _line(axes, curve.points, mean, label)
    if len(loss) > 1:
        band = loss.std(0) / len(loss) ** 0.5
        axes.fill_between(curve.points, mean - band, mean + band, color=colour, alpha=0.2, linewidth=0)


def _line(axes: Axes, x: Any, y: Any, label: str) -> Any:
    """A curve in the next colour, which is returned; the markers of coinciding curves are at different points."""
    every, number = -(-len(x) // SHOWN_MARKERS), len(axes.lines)
    (line,) = axes.plot(x, y, label=label, markevery=(number % every, every))
    line.set_zorder(2 + 0.01 * LINESTYLES.index(line.get_linestyle()))
    return line.get_color()


def _dots(axes: Axes, index: Tensor, right: Tensor) -> None:
    """P[i, idx[i]] = 1 as squares on white: blue where right, orange (and over the blue ones) where wrong."""
    count = len(index)
    size = max(PANEL / count, SMALLEST_DOT) ** 2
    for chosen, colour in ((right, COLOURS[0]), (~right, COLOURS[1])):
        (row,) = chosen.nonzero(as_tuple=True)
        axes.scatter(index[row], row, s=size, color=colour, marker="s", linewidths=0)
    axes.set(xlim=(-0.5, count - 0.5), ylim=(count - 0.5, -0.5), aspect="equal")


def _bare(axes: Axes) -> None:
    """A frame without numbers: positions say nothing by themselves."""
    axes.grid(False)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
