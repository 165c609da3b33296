"""Data as people have it (tensors, pairs, dicts, loaders, noise) as a stream of input batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from wsgraph.inputs import infer_example_input
from wsgraph.modules import tensors_of

from .inputs import Inputs, X, count, each_tensor

BATCH = 512
NOISE = "noise"
"""Gaussian inputs in place of data."""
NOISE_SAMPLES = 5_000
"""Of noise, unless another number is asked for."""

Samples = Any
"""A tensor of inputs, a pair (inputs, targets), a dict, a loader of these, or (for inputs only) ``"noise"``."""
TARGETS = ("labels", "label")
"""What targets are called in a dict; the rest are inputs, by the names of forward's arguments."""


def batches(data: Samples, model: nn.Module) -> Iterator[tuple[Inputs, Tensor | None]]:
    """(inputs, targets or None) batch by batch, on the model's device and in its dtype."""
    seen = 0
    for x, y in _split(data):
        seen += count(x)
        yield for_model(x, model), None if y is None else y.to(_like(model).device)
    if seen == 0:
        raise ValueError("data is empty; an iterator is used up after one pass: pass tensors, a list or a loader")


def for_model(x: X, model: nn.Module) -> X:
    """Inputs on the model's device and, unless they are integers, in its dtype."""
    like = _like(model)
    return each_tensor(lambda t: t.to(like.device, like.dtype) if t.is_floating_point() else t.to(like.device), x)


def input_batches(
    data: Samples,
    model: nn.Module,
    example_input: Tensor | None,
    generator: torch.Generator | None,
    samples: int | None = None,
) -> Iterator[Any]:
    """Inputs only; ``"noise"`` draws standard normal ones of the shape of the example input, ``samples`` of them."""
    require_samples(data, samples)
    if not isinstance(data, str):
        yield from (x for x, _ in batches(data, model))
        return
    if data != NOISE:
        raise ValueError(
            f"data is {data!r}, expected tensors, a loader, {NOISE!r} or, of align.match, 'dreams' or 'pictures'"
        )
    yield from noise(model, example_input, NOISE_SAMPLES if samples is None else samples, generator)


def noise(
    model: nn.Module, example_input: Any, samples: int, generator: torch.Generator | None, size: int = BATCH
) -> Iterator[Tensor]:
    """Standard normal inputs of the shape of the example input, in batches of ``size``."""
    example = infer_example_input(model) if example_input is None else example_input
    if not isinstance(example, Tensor) or not example.is_floating_point():
        kind = example.dtype if isinstance(example, Tensor) else f"a {type(example).__name__} of"
        raise ValueError(f"the network reads {kind} inputs, which noise cannot stand for; pass data=inputs")
    for start in range(0, samples, size):
        n = min(size, samples - start)
        yield for_model(torch.randn(n, *example.shape[1:], generator=generator), model)


def require_samples(data: Samples, samples: int | None) -> None:
    """Raise unless ``samples`` is a number of samples that noise can have, and the data is noise."""
    if samples is None:
        return
    if data is not None and not isinstance(data, str):
        raise ValueError(f"samples={samples} says how many inputs to draw, but data is given; leave samples out")
    if not isinstance(samples, int) or samples < 2:
        raise ValueError(f"samples={samples!r}, expected a whole number of at least 2, to see how neurons vary")


def is_pair(data: Samples) -> bool:
    """Whether ``data`` is (inputs, targets), two tensors, rather than a list of batches."""
    return isinstance(data, (tuple, list)) and len(data) == 2 and all(isinstance(t, Tensor) for t in data)


def require_paired(data: tuple[Tensor, Tensor]) -> None:
    """Raise unless there are as many targets as inputs."""
    x, y = data
    if len(x) != len(y):
        raise ValueError(f"data has {len(x)} inputs but {len(y)} targets; expected one target for each")


def _like(model: nn.Module) -> Tensor:
    return next(t for t in tensors_of(model).values() if t.is_floating_point())


def _split(data: Samples) -> Iterator[tuple[Inputs, Tensor | None]]:
    if isinstance(data, Mapping):
        yield from map(_named, _pieces(data))
    elif isinstance(data, Tensor):
        yield from ((x, None) for x in _equal_chunks(data))
    elif is_pair(data):
        require_paired(data)
        x, y = data
        yield from zip(_equal_chunks(x), _equal_chunks(y), strict=True)
    elif isinstance(data, Iterable):
        yield from map(_item, data)
    else:
        raise TypeError(f"data is a {type(data).__name__}, expected a tensor, a pair (inputs, targets) or a loader")


def _equal_chunks(x: Tensor) -> tuple[Tensor, ...]:
    """Batches of (nearly) one size, so that none counts more than another and none is a single sample."""
    return x.tensor_split(max(1, -(-len(x) // BATCH)))


def _pieces(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A dict of many samples as dicts of some."""
    for chosen in _equal_chunks(torch.arange(count(data))):
        yield each_tensor(lambda t, k=chosen: t[k.to(t.device)], data)  # type: ignore[misc]


def _item(item: Any) -> tuple[Inputs, Tensor | None]:
    """One batch of a loader: inputs, (inputs,), (inputs, targets) or a dict."""
    if isinstance(item, Tensor):
        return item, None
    if isinstance(item, Mapping) and any(isinstance(value, Tensor) for value in item.values()):
        return _named(item)
    inputs, targets = (*item, None)[:2] if isinstance(item, (tuple, list)) and 1 <= len(item) <= 2 else (None, None)
    if isinstance(inputs, (Tensor, Mapping)) and isinstance(targets, (Tensor, type(None))):
        return inputs, targets
    if hasattr(item, "__array__"):
        raise TypeError(f"data holds a {type(item).__name__}, expected tensors: pass torch.as_tensor(...) of it")
    raise TypeError(
        f"the loader yields a {type(item).__name__}, expected inputs or pairs (inputs, targets) of tensors, or dicts "
        "of tensors with their targets as 'labels'"
    )


def _named(item: Mapping[str, Any]) -> tuple[Inputs, Tensor | None]:
    """Inputs and targets of a dict."""
    targets = next((item[name] for name in TARGETS if isinstance(item.get(name), Tensor)), None)
    return {name: value for name, value in item.items() if name not in TARGETS}, targets
