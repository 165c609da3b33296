"""``wsalign barrier`` and ``wsalign distance``: how far networks are from one another."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .options import DATA, Report, add_command, add_method, add_report, picture

if TYPE_CHECKING:
    from ..judging.barrier import Barrier

BARRIER = """  wsalign barrier a.pt b.pt --model nets:Net --data data.safetensors
  wsalign barrier a.pt b.pt --model nets:Net --data data.safetensors -o barrier.png --points 11
  wsalign barrier a.pt b.pt --model nets:Net --data data.safetensors --report barrier.html
  wsalign barrier a.pt b.pt --model nets:Net --data data.safetensors --reset-batchnorm --json

The barrier is the largest loss on the line between two networks above what its ends promise; 0: one basin."""
MEANING = BARRIER.rpartition("\n")[2]
DISTANCE = """  wsalign distance a.safetensors b.safetensors
  wsalign distance a.safetensors b.safetensors c.safetensors -o map.png
  wsalign distance a.pt b.pt --model nets:Net --method deep_align --json

The distance of the weights once neurons are aligned: 0 for networks that differ in the order of neurons only."""
UNALIGNED = "not aligned"
COLOURED = 16
"""Networks that a map can tell apart."""


def add(commands: Any) -> None:
    text = "the loss on the line between two networks, before and after alignment"
    parser = add_command(commands, "barrier", barrier, text, BARRIER)
    parser.add_argument("a", metavar="A", help="the reference")
    parser.add_argument("b", metavar="B", help="the other network")
    parser.add_argument("--data", required=True, help=f"what the loss is measured on: {DATA}")
    parser.add_argument("--points", type=int, default=25, help="on the line, both ends included; default: 25")
    text = "measure BatchNorm statistics anew at every point, on --data, in place of interpolating them"
    parser.add_argument("--reset-batchnorm", action="store_true", help=text)
    parser.add_argument("-o", "--output", type=picture, metavar="PICTURE", help="draw both curves")
    add_report(parser)
    add_method(parser, "auto")

    text = "distances between two or more networks, whatever the order of their neurons"
    parser = add_command(commands, "distance", distance, text, DISTANCE)
    parser.add_argument("a", metavar="A", help="a network")
    parser.add_argument("others", metavar="B", nargs="+", help="networks of the same architecture")
    parser.add_argument("-o", "--output", type=picture, metavar="PICTURE", help="draw a map of the networks")
    add_method(parser, "weight_matching")


def barrier(args: argparse.Namespace) -> Report:
    """A table of barriers, and a picture on request."""
    from ..judging.barrier import barrier as measure
    from ..matching import match
    from ..methods.registry import methods_of
    from ..plots import plot_lines
    from ..running.outputs import loss_of
    from .networks import load, question, require_folders
    from .samples import to_be_judged_on, to_learn_from

    require_folders(args.output, args.report)
    networks = load(args, [args.a, args.b], "barrier")
    a, b = networks.all
    data = to_be_judged_on(args.data, args.example_input)
    reset = data[0] if args.reset_batchnorm else None
    # Only an aligner that cannot do without sees data: those of a file are what it is judged on.
    needed = any(method.needs_data for method in methods_of(args.method))
    seen = to_learn_from(args.data, args.example_input) if needed else None
    found = {UNALIGNED: match(a, b, "identity", **networks.symmetry)}
    found[args.method] = match(a, b, args.method, data=seen, **question(args, networks))
    curves: dict[str, Barrier] = {}
    for name, alignment in found.items():
        curves[name] = measure(a, b, loss_of(data[1]), data, args.points, reset, alignment=alignment)
    if args.output is not None:
        plot_lines(curves, args.output, "Loss between two networks")
    return _barriers(curves, args)


COLUMNS = ("", "barrier", "AUC", "loss of A", "loss of B", "half way", "accuracy half way")


def _barriers(curves: dict[str, Barrier], args: argparse.Namespace) -> Report:
    from rich.table import Table

    rows = {name: _numbers(curve) for name, curve in curves.items()}
    table = Table(title=f"{args.a} and {args.b} on {args.data}")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column else "left")
    for name, row in rows.items():
        table.add_row(name, *_cells(row))
    if args.report is not None:
        _write_report(args, curves, rows)
    written = {"picture": args.output, "report": args.report}
    lines = [f"{what}: {path}" for what, path in written.items() if path is not None]
    paths = {what: None if path is None else str(path) for what, path in written.items()}
    return Report({"curves": rows, **paths}, [table, *lines])


def _cells(row: dict[str, Any]) -> list[str]:
    accuracy = "–" if row["accuracy_half_way"] is None else f"{row['accuracy_half_way']:.1%}"
    return [*(f"{row[key]:.4g}" for key in ("barrier", "auc", "loss_a", "loss_b", "loss_half_way")), accuracy]


def _write_report(args: argparse.Namespace, curves: dict[str, Barrier], rows: dict[str, dict[str, Any]]) -> None:
    from ..reporting.curve import SCRIPT, curve
    from ..reporting.page import paragraph, table, write_page

    about = f"A is {args.a}, B is {args.b}; the loss is that on {args.data}. {MEANING}"
    cells = [(name, *_cells(row)) for name, row in rows.items()]
    parts = [paragraph(about), table(COLUMNS, cells), curve(curves), SCRIPT]
    write_page(args.report, "Loss between two networks", parts)


def _numbers(curve: Barrier) -> dict[str, Any]:
    middle = len(curve.points) // 2
    return {
        "barrier": float(curve),
        "auc": float(curve.auc),
        "loss_a": float(curve.loss[-1]),
        "loss_b": float(curve.loss[0]),
        "loss_half_way": float(curve.loss[middle]),
        "accuracy_half_way": None if curve.accuracy is None else float(curve.accuracy[middle]),
        "points": curve.points.tolist(),
        "loss": curve.loss.tolist(),
    }


def distance(args: argparse.Namespace) -> Report:
    """The matrix of distances, and a map on request."""
    from rich.table import Table

    from ..judging.distance import pairwise_distance, plane
    from ..plots import plot_map
    from .networks import load, question, require_folders

    require_folders(args.output)
    names = [args.a, *args.others]
    networks = load(args, names)
    found = pairwise_distance(networks.all, args.method, **question(args, networks))
    table = Table(title=f"distances, aligned by {args.method}")
    for column in ("", *names):
        table.add_column(column, justify="right" if column else "left")
    for name, row in zip(names, found.tolist(), strict=True):
        table.add_row(name, *(f"{value:.4g}" for value in row))
    lines = []
    if args.output is not None:
        labels = names if len(set(names)) <= COLOURED else ["networks"] * len(names)
        plot_map({f"aligned by {args.method}": plane(found)}, labels, args.output, "Distances between networks")
        lines = [f"picture: {args.output}"]
    shown = {"networks": names, "distances": found.tolist(), "method": args.method}
    return Report({**shown, "picture": None if args.output is None else str(args.output)}, [table, *lines])
