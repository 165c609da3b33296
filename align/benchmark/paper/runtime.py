"""Seconds that a method takes for a pair, on this machine and on one thread."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch

from ...matching import match
from ...progress import progress
from ...zoo.composed import zoo_configs
from ..tables import both
from .notebook import Notebook
from .reported import SECONDS
from .settings import Settings, training

METHODS: Mapping[str, tuple[str, bool]] = {
    "weight matching": ("weight_matching", False),
    "covariance matching": ("covariance_matching", False),
    "activation matching": ("activation_matching", True),
    "Sinkhorn": ("sinkhorn", True),
    "deep align": ("deep_align", False),
}
"""Label → name, and whether it sees images."""
WHOLE = 1_000
"""Iterations of Sinkhorn re-basin that are meant; fewer are measured. Its looks at the hard loss, one in 25
iterations, are not: what is reported for it is a lower bound."""


def runtime(book: Notebook) -> None:
    """Measure every method on two untrained networks of every architecture: time does not depend on training."""
    settings = book.settings
    seconds = {
        title: {label: book.keep(f"{title}: {label}", _seconds, title, label, settings) for label in METHODS}
        for title in settings.families
    }
    rows = [
        [
            label,
            *(_rounded(seconds[title][label]) for title in seconds),
            f"{SECONDS[label]:g}" if label in SECONDS else "–",
        ]
        for label in METHODS
    ]
    book.close(both(["seconds per pair", *seconds, "paper: CNN, on an A100"], rows))


def _rounded(seconds: float) -> str:
    """To three digits.

    >>> _rounded(0.04791), _rounded(4471.3)
    ('0.0479', '4,470')
    """
    return f"{seconds:.3g}" if seconds < 1_000 else f"{float(f'{seconds:.3g}'):,.0f}"


def _seconds(title: str, label: str, settings: Settings) -> float:
    """The least of several calls, after one that traces the architecture; Sinkhorn's iterations are extrapolated.

    n iterations and 2 n differ by n iterations: what comes before and after them is not multiplied.
    """
    config = training(settings.families[title], 0)
    made = zoo_configs(config, config.zoo)[0]
    a, b = (made.network(seed).eval() for seed in (1, 2))
    example = made.example_input()
    inputs = torch.randn(settings.images, *example.shape[1:], generator=torch.Generator().manual_seed(0))
    name, sees = METHODS[label]
    options: dict[str, Any] = {"data": inputs} if sees else {}
    match(a, b, "identity", example_input=example)

    def timed(repetitions: int, **more: Any) -> float:
        found = []
        with progress(f"{title}: {label}", repetitions) as step:
            for _ in range(repetitions):
                start = time.process_time()
                match(a, b, name, example_input=example, **options, **more)
                found.append(time.process_time() - start)
                step()
        return min(found)

    if name != "sinkhorn":
        return timed(settings.seeds)
    n = settings.sinkhorn
    few, more = (timed(1, iterations=k * n) for k in (1, 2))
    return few + (WHOLE - n) * max(0.0, more - few) / n
