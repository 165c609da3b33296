"""The order of a bare state dict's layers: as listed, or by names and shapes where a file has sorted its entries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product

from torch import Tensor

Modules = Mapping[str, Mapping[str, Tensor]]
"""Entries of each layer and norm, by the common part of their names."""


def how_it_reads(weight: Tensor, size: int, before: Tensor | None) -> str | None:
    """How a layer can read ``size`` values, which the layer of the weight ``before`` put out; ``None`` if it cannot.

    Only maps of a convolution are flattened with their channels first, as (C, H, W).
    """
    inputs, is_kernel = weight.shape[1], weight.dim() > 2
    if inputs == size:
        return "plain"
    if before is None:
        return None
    if is_kernel and inputs == 1 and weight.shape[0] == size:
        return "depthwise"
    return "flattened" if before.dim() > 2 and not is_kernel and inputs % size == 0 else None


def in_order(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The entries in order of execution; raise if their shapes allow for several.

    ``module.state_dict()`` lists layers as they were defined, each weight before its bias. Files list names by the
    alphabet, "10." before "2." and bias before weight. Then numbers in names tell the order, or shapes, if they can.
    """
    if not _is_sorted(tensors):
        return dict(tensors)
    modules: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        modules.setdefault(name.rpartition(".")[0], {})[name] = tensor
    for entries in modules.values():
        if len(several := [name for name, t in entries.items() if t.dim() > 1]) > 1:
            raise ValueError(_ambiguous(f"{several} belong to one module"))
    found = list(islice(_chains(modules), 2))
    if len(found) > 1:
        raise ValueError(_ambiguous(f"more than one chain fits their shapes: {' and '.join(map(' → '.join, found))}"))
    order = found[0] if found else sorted(modules, key=_natural)  # whoever reads it will see what does not fit
    return {name: t for module in order for name, t in sorted(modules[module].items(), key=lambda e: -e[1].dim())}


def _ambiguous(why: str) -> str:
    return (
        f"cannot tell the order of layers: the entries of the state dict are sorted by name, and {why}. Pass them in "
        "the order of module.state_dict(), or pass the module, to_graph(model), or spec="
    )


def _is_sorted(tensors: Mapping[str, Tensor]) -> bool:
    """Whether somebody put the entries into alphabetical order; safetensors does so for each dtype."""
    place = {name: k for k, name in enumerate(tensors)}
    modules = {name.rpartition(".")[0] for name in tensors}
    if any(place.get(f"{m}.bias", len(place)) < place.get(f"{m}.weight", -1) for m in modules):
        return True
    by_type = [[name for name, t in tensors.items() if t.dtype == kind] for kind in {t.dtype for t in tensors.values()}]
    return all(names == sorted(names) for names in by_type)


def _natural(name: str) -> list[str | int]:
    """A key that sorts "2" before "10"."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _precedes(x: str, y: str) -> bool:
    """Whether names tell that one module comes before another: they differ in a number first, and it is the smaller."""
    for p, q in zip(x.split("."), y.split("."), strict=False):
        if p != q:
            return re.sub(r"\d+", "#", p) == re.sub(r"\d+", "#", q) and _natural(p) < _natural(q)
    return False


def _chains(modules: Modules) -> Iterator[list[str]]:
    """All orders of the modules in which each layer reads the one before it and norms follow values of their size."""
    weights = {m: t for m, entries in modules.items() for t in entries.values() if t.dim() > 1}
    vectors = {m: t for m, entries in modules.items() for t in entries.values() if t.dim() == 1 and m not in weights}
    rest = [m for m in modules if m not in weights and m not in vectors]
    for layers in _layer_chains(weights, ()):
        for placed in _placements(layers, weights, vectors):
            yield [m for _, m in sorted([*enumerate(layers), *placed], key=lambda e: e[0])] + rest


def _layer_chains(weights: Mapping[str, Tensor], chain: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """All ways to go on with a chain of layers to its end."""
    left = [module for module in weights if module not in chain]
    if not left:
        yield chain
    for module in left:
        if _follows(weights, chain, module) and not any(_precedes(other, module) for other in left):
            yield from _layer_chains(weights, (*chain, module))


def _follows(weights: Mapping[str, Tensor], chain: tuple[str, ...], module: str) -> bool:
    """Whether a layer can come next; no convolution comes after what was flattened."""
    if not chain:
        return True
    weight, before = weights[module], weights[chain[-1]]
    return weight.dim() <= before.dim() and how_it_reads(weight, before.shape[0], before) is not None


def _placements(
    layers: Sequence[str], weights: Mapping[str, Tensor], vectors: Mapping[str, Tensor]
) -> Iterator[list[tuple[float, str]]]:
    """All ways to put norms behind layers, or in front of the first: pairs (place, module)."""
    sizes = [weights[layers[0]].shape[1], *(weights[layer].shape[0] for layer in layers)] if layers else []
    depthwise = [k for k, layer in enumerate(layers) if k and weights[layer].shape[1] == 1 and sizes[k] > 1]

    def places(norm: str) -> list[int]:
        fits = [k - 1 for k, size in enumerate(sizes) if size == vectors[norm].shape[0]]
        after = [k for k in fits if not any(_precedes(norm, layer) for layer in layers[: k + 1])]
        found = [k for k in after if not any(_precedes(layer, norm) for layer in layers[k + 1 :])]
        return [k for k in found if k + 1 not in found or k + 1 not in depthwise]  # those move like the layer before

    norms = sorted(vectors, key=_natural)
    for chosen in product(*map(places, norms)):
        placed = list(zip(chosen, norms, strict=True))
        if all(k <= j for k, m in placed for j, n in placed if _precedes(m, n)):
            yield [(k + 0.5, m) for k, m in placed]
