"""Which symmetry is found in which architecture, and whether a planted permutation of it is recovered.

Every model gets random weights; ``b`` is ``a`` under a random element of the whole group found. Recovered means that
the aligned b equals a, parameter by parameter.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from wsgraph import Axis, Permutation, Spec, WeightGraph, to_graph, trace
from wsgraph.files import replacing

from ..matching import match
from ..progress import progress
from .graphs import NETWORKS as GRAPHS
from .graphs import graph_model
from .hub import TYPES, hub_model
from .memory import peak_memory, return_freed_memory
from .models import NETWORKS, gpt2
from .vision import NAMES, vision_model

METHODS = ("weight_matching", "deep_align")
COLUMNS = ("model", "parameters", "groups", "free", "permutable", "pinned because", "trace", *METHODS)
Build = Callable[[], tuple[nn.Module, Any]]
"""Makes a model and an example input."""


def models() -> dict[str, Build]:
    """All models of the table by name, library after library."""
    found: dict[str, Build] = {name: partial(case, 1.0) for name, case in NETWORKS.items()}
    for library, names, build in (
        ("torch_geometric", GRAPHS, graph_model),
        ("timm", NAMES, vision_model),
        ("transformers", TYPES, hub_model),
    ):
        found |= {f"{library}: {name}": partial(build, name) for name in names}
    return found


def row(build: Build) -> list[str]:
    """One row of the table, without the model's name; for a model that is refused, the reason."""
    torch.manual_seed(0)
    try:
        model, example = build()
    except ImportError as error:
        return ["-", "-", "-", "-", f"not tried: {error}", "-", "-", "-"]
    size = f"{sum(p.numel() for p in model.parameters()):,}"
    start = time.process_time()
    try:
        spec = trace(model.eval(), example)
    except ValueError as error:
        return [size, "-", "-", "-", f"refused: {refusal(error)}", f"{time.process_time() - start:.1f} s", "-", "-"]
    elapsed = time.process_time() - start
    found = [size, f"{len(spec.groups)}", f"{len(spec.free)}"]
    found += [f"{permutable(model, spec):.1%}", reasons(spec), f"{elapsed:.1f} s"]
    a = to_graph(model, spec=spec, verify=False)
    b = Permutation.random(spec, torch.Generator().manual_seed(1)).apply(a)
    return found + ["recovered" if recovered(a, b, method) else "NO" for method in METHODS]


def refusal(error: ValueError) -> str:
    """Why a model cannot be traced, and the line of its code that it is about."""
    head, *lines = str(error).splitlines()
    where = next((line.rpartition(": ")[2] for line in lines if line.startswith("It gives up at")), "")
    return head.split(" (.item()")[0].partition(", because ")[2] + f" (`{where}`)" * bool(where) or head


def permutable(model: nn.Module, spec: Spec) -> float:
    """Share of all (parameter, axis) that a permutation of a free group moves, each weighted by the parameter's size.

    Axes of positions only, as of a kernel's taps, do not count, unless the parameter has no others.
    """
    moved = total = 0.0
    for name, parameter in model.named_parameters():
        axes = spec.params[name].axes
        for axis in [axis for axis in axes if axis.groups] or axes:
            total += parameter.numel()
            moved += parameter.numel() * _moving(spec, axis)
    return moved / total


def _moving(spec: Spec, axis: Axis) -> float:
    """Share of an axis in parts that move."""
    free = {group.name for group in spec.free}
    sizes = {part: spec.axis_size(Axis((part,))) for part in axis.parts}
    moved = [sizes[part] for part in axis.parts if not free.isdisjoint(Axis((part,)).groups)]
    return sum(moved) / spec.axis_size(axis)


def reasons(spec: Spec) -> str:
    """Why groups are pinned, and how many for each reason."""
    count = Counter(g.why for g in spec.groups.values() if g.pinned)
    return ", ".join(why if n == 1 else f"{why} ({n})" for why, n in count.items())


def recovered(a: WeightGraph, b: WeightGraph, method: str) -> bool:
    """Whether aligning b, a permuted copy of a, gives a again."""
    aligned = match(a, b, method, seed=0).apply(b)
    return all(torch.equal(aligned.tensors[k], t) for k, t in a.tensors.items())


def coverage(names: list[str] | None = None, page: Path | None = None) -> None:
    """Print the table as Markdown, and put it in place of the one of a page of the documentation."""
    console = Console(width=400)
    builds = {k: b for k, b in models().items() if not names or any(n.lower() in k.lower() for n in names)}
    if not builds:
        raise SystemExit(f"no model has one of the words {names} in its name")
    table = header()
    console.print(table, markup=False)
    with progress("tracing", len(builds)) as step:
        for name, build in builds.items():
            table += (line := f"\n| {' | '.join([name, *row(build)])} |")
            console.print(line.strip(), markup=False)
            step(name)
    if page is not None:
        replace_table(page, table)


def header() -> str:
    return f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"


def replace_table(page: Path, table: str) -> None:
    """Put a table in place of the one with the same columns."""
    before, found, after = page.read_text().partition(header())
    if not found:
        raise SystemExit(f"{page} has no table with the columns {', '.join(COLUMNS)}")
    lines = after.lstrip("\n").splitlines(keepends=True)
    rest = next((k for k, line in enumerate(lines) if not line.startswith("|")), len(lines))
    with replacing(page) as new:
        new.write_text(before + table + "\n" + "".join(lines[rest:]))


def large() -> None:
    """Print what a network of the size of GPT-2 costs."""
    return_freed_memory()
    torch.manual_seed(0)
    model, example = gpt2()
    start = time.perf_counter()
    spec = trace(model.eval(), example)
    print_row = Console(width=200).print
    weights = sum(p.numel() for p in model.parameters())
    print_row(f"GPT-2, {weights:,} parameters, {len(spec.free)} free groups: trace {time.perf_counter() - start:.1f} s")
    a = to_graph(model, spec=spec, verify=False)
    b = Permutation.random(spec, torch.Generator().manual_seed(1)).apply(a)
    for method in METHODS:
        with peak_memory() as peak:
            start = time.perf_counter()
            found = match(a, b, method, seed=0)
            elapsed = time.perf_counter() - start
        same = "recovered" if found.distance == 0 else "NOT recovered"
        print_row(f"{method}: {elapsed:.1f} s, peak {peak.bytes / (4 * weights):.2f} × one network, {same}")
