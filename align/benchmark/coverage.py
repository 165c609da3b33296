"""Which symmetry is found in which architecture, and whether a planted permutation of it is recovered.

Every model gets random weights; ``b`` is ``a`` under a random element of the whole group found. Recovered means that
the aligned b equals a, parameter by parameter.
"""

from __future__ import annotations

import time
from collections import Counter

import torch
from rich.console import Console
from torch import nn

from wsgraph import Permutation, Spec, WeightGraph, to_graph, trace

from ..matching import match
from .memory import peak_memory, return_freed_memory
from .models import CASES, Case, gpt2

METHODS = ("weight_matching", "deep_align")
COLUMNS = ("model", "parameters", "groups", "free", "permutable", "pinned because", "trace", *METHODS)


def measure(case: Case, width: float = 1.0) -> list[str]:
    """One row of the table, without the model's name."""
    torch.manual_seed(0)
    model, example = case(width)
    start = time.perf_counter()
    spec = trace(model.eval(), example)
    elapsed = time.perf_counter() - start
    found = [f"{sum(p.numel() for p in model.parameters()):,}", f"{len(spec.groups)}", f"{len(spec.free)}"]
    found += [f"{permutable(model, spec):.1%}", reasons(spec), f"{elapsed:.1f} s"]
    a = to_graph(model, spec=spec, verify=False)
    b = Permutation.random(spec, torch.Generator().manual_seed(1)).apply(a)
    return found + ["recovered" if recovered(a, b, method) else "NO" for method in METHODS]


def permutable(model: nn.Module, spec: Spec) -> float:
    """Share of the parameters that a permutation of a free group moves."""
    free = {g.name for g in spec.free}
    moved = {name for name, p in spec.params.items() if any(g in free for axis in p.axes for g in axis.groups)}
    sizes = {name: p.numel() for name, p in model.named_parameters()}
    return sum(n for name, n in sizes.items() if name in moved) / sum(sizes.values())


def reasons(spec: Spec) -> str:
    """Why groups are pinned, and how many for each reason."""
    count = Counter(g.why for g in spec.groups.values() if g.pinned)
    return ", ".join(why if n == 1 else f"{why} ({n})" for why, n in count.items())


def recovered(a: WeightGraph, b: WeightGraph, method: str) -> bool:
    """Whether aligning b, a permuted copy of a, gives a again."""
    aligned = match(a, b, method, seed=0).apply(b)
    return all(torch.equal(aligned.tensors[k], t) for k, t in a.tensors.items())


def coverage(names: list[str] | None = None) -> None:
    """Print the table as Markdown, the format of the documentation."""
    console = Console(width=400)
    console.print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", markup=False)
    for name, case in CASES.items():
        if not names or any(n.lower() in name.lower() for n in names):
            console.print(f"| {' | '.join([name, *measure(case)])} |", markup=False)


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
