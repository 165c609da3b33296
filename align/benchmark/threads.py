"""Threads that share networks: every answer must be that of one thread alone, and the networks stay as they are."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from ..judging.barrier import barrier
from ..matching import match
from ..merging.merge import merge
from ..methods.registry import takes

THREADS = 8
SWITCH = 1e-5
"""Seconds after which Python lets another thread run: many more chances to disturb each other than by default."""

Call = Callable[[], list[Tensor]]


def networks() -> dict[str, tuple[nn.Module, nn.Module]]:
    """Pairs that are easily disturbed: in training mode, with norms, dropout, and a hook that tells who runs them."""

    def mlp() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))

    def cnn() -> nn.Module:
        body = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()]
        return nn.Sequential(*body, nn.Linear(36, 3))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        pairs = {"MLP": (mlp(), mlp()), "CNN": (cnn(), cnn())}
    for pair in pairs.values():
        for model in pair:
            model.train()[1].eval()  # type: ignore[index]
            model.register_buffer("calls", torch.zeros((), dtype=torch.long), persistent=False)
            model.register_forward_hook(_count)
    return pairs


def _count(model: nn.Module, _inputs: Any, _outputs: Any) -> None:
    model.calls.add_(1)  # type: ignore[operator]


def calls(a: nn.Module, b: nn.Module) -> dict[str, Call]:
    """What threads do with a pair, by name; each gives all numbers of its answer."""
    generator = torch.Generator().manual_seed(0)
    shape = (6,) if isinstance(a[0], nn.Linear) else (1, 3, 3)  # type: ignore[index]
    x, y = torch.randn(24, *shape, generator=generator), torch.randint(3, (24,), generator=generator)

    def matched(method: str, **options: Any) -> Call:
        data = (x, y) if takes(method, "data") else None
        return lambda: list(match(a, b, method, data=data, example_input=x[:2], **options).maps.values())

    def line(reset: Tensor | None = None) -> list[Tensor]:
        return [barrier(a, b, data=(x, y), points=3, reset_batchnorm=reset).loss]

    def merged(repair: str) -> Call:
        return lambda: list(merge(a, b, repair=repair, data=x).state_dict().values())

    return {
        "match by weights": matched("weight_matching"),
        "match by activations": matched("activation_matching"),
        "match by ste": matched("weight_matching+ste", iterations=2),
        "match by sinkhorn": matched("weight_matching+sinkhorn", iterations=2),
        "match by deep_align": matched("deep_align"),
        "barrier": line,
        "barrier, norms reset": lambda: line(x),
        "merge": merged("none"),
        "merge, repaired": merged("repair"),
    }


def state(model: nn.Module) -> list[Any]:
    """Everything about a network that a call might change."""
    tensors = [*model.state_dict().values(), *model.buffers()]
    modules = [(id(m), m.training, sorted(vars(m))) for m in model.modules()]
    hooks = [dict(m._forward_hooks) for m in model.modules()]
    return [[t.clone() for t in tensors], modules, hooks, [p.grad for p in model.parameters()]]


def same(x: Any, y: Any) -> bool:
    """Equality to the bit, of tensors in lists."""
    if isinstance(x, Tensor):
        return torch.equal(x, y)
    return len(x) == len(y) and all(map(same, x, y)) if isinstance(x, list) else bool(x == y)


def disturb(jobs: Mapping[str, Call], count: int, threads: int = THREADS) -> dict[str, Counter[str]]:
    """Run every job ``count`` times in each thread, all at once; how often each raised or gave another answer."""
    alone = {name: job() for name, job in jobs.items()}
    found: dict[str, list[str]] = {name: [] for name in jobs}
    start = threading.Barrier(threads)

    def work(number: int) -> None:
        order = [*jobs][number % len(jobs) :] + [*jobs][: number % len(jobs)]  # different jobs at the same time
        start.wait()
        for name in order * count:
            try:
                outcome = "same" if same(jobs[name](), alone[name]) else "other answer"
            except Exception as error:
                outcome = f"raised {type(error).__name__}"
            found[name].append(outcome)  # in one step, unlike counting

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    with _switching(SWITCH):
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return {name: Counter(outcomes) for name, outcomes in found.items()}


@contextmanager
def _switching(seconds: float) -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def compare(count: int) -> None:
    """Print what became of the calls, and whether networks and torch's generator are as they were."""
    table = Table("network", "call", "outcomes", title=f"{THREADS} threads, {count} calls of each kind by each of them")
    random = torch.get_rng_state()
    for name, pair in networks().items():
        before = [state(model) for model in pair]
        for job, outcomes in disturb(calls(*pair), count).items():
            table.add_row(name, job, ", ".join(f"{n} {what}" for what, n in outcomes.items()))
        untouched = same(before, [state(model) for model in pair])
        table.add_row(name, "networks afterwards", "as before" if untouched else "changed", end_section=True)
    table.add_row("", "torch's generator", "as before" if same(random, torch.get_rng_state()) else "changed")
    Console(width=120).print(table)
