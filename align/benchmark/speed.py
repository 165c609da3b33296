"""How fast the learned aligner is, and how far from the floor.

The floor is what cannot be left out: all matrix products of all sweeps and the projection of kernel taps, bare, in the
same dtype and with the same number of threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch
from rich.console import Console
from torch import nn

from wsgraph import Permutation, WeightGraph, to_graph
from wsgraph.nn.message import DenseEdges
from wsgraph.nn.prepare import prepare

from ..alignment import Alignment, project
from ..deep_align import DeepAlign
from ..zoo.architectures import cnn, mlp, resnet50, vgg
from .memory import peak_memory
from .sheet import Sheet

T = TypeVar("T")
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MLP 784-128-128-128-10": (mlp, (1, 28, 28)),
    "CNN of the paper": (cnn, (3, 32, 32)),
    "VGG11": (lambda: vgg(11), (3, 32, 32)),
    "VGG16": (lambda: vgg(16), (3, 32, 32)),
    "ResNet-50": (resnet50, (3, 64, 64)),
    "MLP of 100M": (lambda: mlp(hidden=(6600, 6600, 6600)), (1, 28, 28)),
}


def measure(make: Callable[[], nn.Module], shape: tuple[int, ...], aligner: DeepAlign) -> dict[str, float]:
    """One row: seconds of every stage (best of five), the floor, and peak bytes above the two networks."""
    model, example = make().eval(), torch.randn(2, *shape)
    start = time.perf_counter()
    spec = to_graph(model, example).spec
    row = {"trace": time.perf_counter() - start}
    row["graph"], a = _best(lambda: to_graph(model, example))
    b = Permutation.random(spec).apply(a)
    row["weights"] = sum(t.numel() for t in a.tensors.values())
    with torch.no_grad():
        # One after the other and again, so that a busy moment of the machine meets both.
        (floor, _), (encode, _) = _alternating(lambda: _floor(a, aligner), lambda: aligner.encoder.embed([a.network]))
        row["floor"], row["encode"] = 2 * floor, 2 * encode
        embedded, stacked = _best(lambda: aligner.stacked_scores([a], [b]))
        scores = {name: s[0] for name, s in stacked.items()}
        row["score"] = max(0.0, embedded - row["encode"])
        row["hungarian"], _ = _best(lambda: project([Alignment(a, b, scores)]))
        with peak_memory() as peak:
            start = time.perf_counter()
            alignment = aligner(a, b)
            row["total"] = time.perf_counter() - start
    row["peak"] = peak.bytes
    row["bytes"] = sum(t.numel() * t.element_size() for t in a.tensors.values())
    row["exact"] = float(alignment.distance < 1e-2)
    return row


def _best(function: Callable[[], T]) -> tuple[float, T]:
    """Shortest of several runs in seconds, and the last result."""
    return _alternating(function)[0]


def _alternating(*functions: Callable[[], T], repeats: int = 5) -> list[tuple[float, T]]:
    """:func:`_best` of several functions that take turns."""
    times: list[list[float]] = [[] for _ in functions]
    results: list[T] = []
    for _ in range(repeats):
        results = []
        for function, taken in zip(functions, times, strict=True):
            start = time.perf_counter()
            results.append(function())
            taken.append(time.perf_counter() - start)
    return [(min(taken), result) for taken, result in zip(times, results, strict=True)]


def _floor(graph: WeightGraph, aligner: DeepAlign) -> None:
    """The bare products of one network's encoding."""
    config = aligner.config.encoder
    for step in prepare(graph.spec, [graph.network], config.basis, aligner.encoder.dtype):
        if not isinstance(step.edges, DenseEdges):
            continue
        weights = step.edges.weights.flatten(-2)
        right, left = torch.ones(weights.shape[1], config.messages), torch.ones(weights.shape[0], config.hidden)
        pinned = graph.spec.groups[step.step.block.source or step.step.block.target].why == "network input"
        for _ in range(config.sweeps):
            _ = weights @ right
            if not pinned:
                _ = weights.mT @ left


def speed(names: list[str] | None = None) -> None:
    """Print the table of all networks."""
    aligner = DeepAlign()
    columns = ("network", "weights", "trace", "graph", "encode", "floor", "encode/floor", "score", "Hungarian", "total")
    title = f"A pair of networks, seconds on {torch.get_num_threads()} thread(s)"
    sheet, console = Sheet("speed", title, (*columns, "peak/weights", "exact")), Console()
    for name, (make, shape) in NETWORKS.items():
        if names and not any(n.lower() in name.lower() for n in names):
            continue
        with console.status(name):
            r = measure(make, shape, aligner)
        cells = [f"{r['weights']:,.0f}", f"{r['trace']:.2f}", f"{r['graph']:.4f}", f"{r['encode']:.3f}"]
        cells += [f"{r['floor']:.3f}", f"{r['encode'] / r['floor']:.2f}", f"{r['score']:.3f}", f"{r['hungarian']:.3f}"]
        sheet.add(name, *cells, f"{r['total']:.3f}", f"{r['peak'] / r['bytes']:.2f}", "yes" if r["exact"] else "NO")
    sheet.close()


WIDTHS = ((64, 32, 32, 10), (784, 128, 128, 128, 10), (784, 512, 512, 10))


def batches() -> None:
    """Print how much faster a batch of pairs is than one pair after the other."""
    aligner = DeepAlign()
    columns = ("network", "pairs", "one by one", "together", "ratio", "together, not refined")
    sheet = Sheet("speed/batches", f"Batches of pairs, seconds on {torch.get_num_threads()} thread(s)", columns)
    for widths in WIDTHS:
        count = 64 if widths[0] < 100 else 8
        left, right = ([to_graph(mlp((widths[0],), widths[1:-1], widths[-1])) for _ in range(count)] for _ in range(2))
        alone, _ = _best(partial(_one_by_one, aligner, left, right))
        (together, _), (plain, _) = _alternating(*(partial(f, left, right) for f in (aligner, aligner.unrefined())))
        name = "-".join(map(str, widths))
        sheet.add(name, str(count), *(f"{x:.3f}" for x in (alone, together, alone / together, plain)))
    sheet.close()


def _one_by_one(aligner: DeepAlign, left: list[WeightGraph], right: list[WeightGraph]) -> list[Alignment]:
    return [aligner(a, b) for a, b in zip(left, right, strict=True)]
