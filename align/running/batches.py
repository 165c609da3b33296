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
"""Of noise, unless another number is asked for."""

Samples = Any
"""A tensor of inputs, a pair (inputs, targets), a loader of either, or (for inputs only) ``"noise"``."""


def batches(data: Samples, model: nn.Module) -> Iterator[tuple[Tensor, Tensor | None]]:
    """(inputs, targets or None) batch by batch, on the model's device and in its dtype."""
    count = 0
    for x, y in _split(data):
        count += len(x)
        yield for_model(x, model), None if y is None else y.to(_like(model).device)
    if count == 0:
        raise ValueError("data is empty; an iterator is used up after one pass: pass tensors, a list or a loader")


def for_model(x: Tensor, model: nn.Module) -> Tensor:
    """Inputs on the model's device and, unless they are integers, in its dtype."""
    like = _like(model)
    return x.to(like.device, like.dtype) if x.is_floating_point() else x.to(like.device)


def input_batches(
    data: Samples,
    model: nn.Module,
    example_input: Tensor | None,
    generator: torch.Generator | None,
    samples: int | None = None,
) -> Iterator[Tensor]:
    """Inputs only; ``"noise"`` draws standard normal ones of the shape of the example input, ``samples`` of them."""
    require_samples(data, samples)
    if not isinstance(data, str):
        yield from (x for x, _ in batches(data, model))
        return
    if data != NOISE:
        raise ValueError(f"data is {data!r}, expected tensors, a loader or {NOISE!r}")
    example = infer_example_input(model) if example_input is None else example_input
    kind = getattr(example, "dtype", type(example).__name__)
    if not (isinstance(example, Tensor) and example.is_floating_point()):
        raise ValueError(f"the network reads {kind} inputs, which noise cannot stand for; pass data=inputs")
    samples = NOISE_SAMPLES if samples is None else samples
    for start in range(0, samples, BATCH):
        n = min(BATCH, samples - start)
        yield for_model(torch.randn(n, *example.shape[1:], generator=generator), model)


def require_samples(data: Samples, samples: int | None) -> None:
    """Raise unless ``samples`` is a number of samples that noise can have, and the data is noise."""
    if samples is None:
        return
    if not isinstance(data, str):
        raise ValueError(f"samples={samples} says how much noise to draw, but data is not {NOISE!r}; leave samples out")
    if not isinstance(samples, int) or samples < 2:
        raise ValueError(f"samples={samples!r}, expected a whole number of at least 2, to see how neurons vary")


def is_pair(data: Samples) -> bool:
    """Whether ``data`` is (inputs, targets), two tensors, rather than a list of batches."""
    return isinstance(data, (tuple, list)) and len(data) == 2 and all(isinstance(t, Tensor) for t in data)


def _like(model: nn.Module) -> Tensor:
    return next(t for t in tensors_of(model).values() if t.is_floating_point())


def _split(data: Samples) -> Iterator[tuple[Tensor, Tensor | None]]:
    if isinstance(data, Tensor):
        yield from ((x, None) for x in _equal_chunks(data))
    elif is_pair(data):
        x, y = data
        if len(x) != len(y):
            raise ValueError(f"{len(x)} inputs but {len(y)} targets")
        yield from zip(_equal_chunks(x), _equal_chunks(y), strict=True)
    elif isinstance(data, Iterable):
        yield from map(_item, data)
    else:
        raise TypeError(f"data is a {type(data).__name__}, expected a tensor, a pair (inputs, targets) or a loader")


def _equal_chunks(x: Tensor) -> tuple[Tensor, ...]:
    """Batches of (nearly) one size, so that none counts more than another and none is a single sample."""
    return x.tensor_split(max(1, -(-len(x) // BATCH)))


def _item(item: Any) -> tuple[Tensor, Tensor | None]:
    """One batch of a loader: inputs, (inputs,) or (inputs, targets)."""
    if isinstance(item, Tensor):
        return item, None
    if isinstance(item, (tuple, list)) and 1 <= len(item) <= 2 and all(isinstance(t, Tensor) for t in item):
        return item[0], item[1] if len(item) == 2 else None
    raise TypeError(f"the loader yields a {type(item).__name__}, expected inputs or pairs (inputs, targets) of tensors")
