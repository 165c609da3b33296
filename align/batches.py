"""Data as people have it (tensors, pairs, loaders, noise) as a stream of input batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from wsgraph.inputs import infer_example_input
from wsgraph.modules import tensors_of

BATCH = 512
NOISE = "noise"
"""Gaussian inputs in place of data."""
NOISE_SAMPLES = 5_000

Data = Any
"""A tensor of inputs, a pair (inputs, targets), a loader of either, or (for inputs only) ``"noise"``."""


def batches(data: Data, model: nn.Module) -> Iterator[tuple[Tensor, Tensor | None]]:
    """(inputs, targets or None) batch by batch, on the model's device and in its dtype."""
    like = next(t for t in tensors_of(model).values() if t.is_floating_point())
    for x, y in _split(data):
        x = x.to(like.device, like.dtype) if x.is_floating_point() else x.to(like.device)
        yield x, None if y is None else y.to(like.device)


def input_batches(
    data: Data, model: nn.Module, example_input: Tensor | None, generator: torch.Generator | None
) -> Iterator[Tensor]:
    """Inputs only; ``"noise"`` draws standard normal ones of the shape of the example input."""
    if not isinstance(data, str):
        yield from (x for x, _ in batches(data, model))
        return
    if data != NOISE:
        raise ValueError(f"data is {data!r}, expected tensors, a loader or {NOISE!r}")
    example = infer_example_input(model) if example_input is None else example_input
    for start in range(0, NOISE_SAMPLES, BATCH):
        n = min(BATCH, NOISE_SAMPLES - start)
        noise = torch.randn(n, *example.shape[1:], generator=generator)
        yield noise.to(example.device, example.dtype)


def _split(data: Data) -> Iterator[tuple[Tensor, Tensor | None]]:
    if isinstance(data, Tensor):
        yield from ((x, None) for x in data.split(BATCH))
    elif isinstance(data, (tuple, list)) and len(data) == 2 and all(isinstance(t, Tensor) for t in data):
        x, y = data
        if len(x) != len(y):
            raise ValueError(f"{len(x)} inputs but {len(y)} targets")
        yield from zip(x.split(BATCH), y.split(BATCH), strict=True)
    elif isinstance(data, Iterable):
        for item in data:
            yield (item, None) if isinstance(item, Tensor) else (item[0], item[1])
    else:
        raise TypeError(f"data is a {type(data).__name__}, expected a tensor, a pair (inputs, targets) or a loader")
