"""What is in a mixture of families, in words: a table by kind of networks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..zoo import ZooConfig
from ..zoo.tables import TEACHER
from .left_out import kind_of

SHAPE = ("inputs", "outputs")
"""Arguments of builders that the data decides."""


def describe(families: Sequence[ZooConfig], networks: int) -> str:
    """A Markdown table of kinds, what their networks differ in, and what they learned."""
    kinds: dict[str, list[ZooConfig]] = {}
    for config in families:
        kinds.setdefault(kind_of(config), []).append(config)
    lines = ["| kind | families | sizes and parts | data |", "|---|---:|---|---|"]
    for kind, configs in kinds.items():
        data = ", ".join(dict.fromkeys(_data(config) for config in configs))
        lines.append(f"| {kind} | {len(configs)} | {_parts(configs)} | {data} |")
    recipes = [config.recipe for config in families]
    named = " ".join(
        f"{what}: {_span(getattr(recipe, field) for recipe in recipes)}."
        for what, field in (("Optimisers", "optimiser"), ("Initialisations", "init"), ("Learning rates", "lr"))
    )
    part = families[0].split
    shares = f"Of every {sum(part)} networks of a family {part[0]} were for learning and {part[1]} for validation"
    return "\n".join([*lines, "", f"{networks} networks each. {shares}. {named}"])


def _parts(configs: Sequence[ZooConfig]) -> str:
    """Every argument and the values it takes."""
    names = dict.fromkeys(name for config in configs for name in config.args if name not in SHAPE)
    found = []
    for name in names:
        values = [config.args[name] for config in configs if name in config.args]
        if isinstance(values[0], list):
            sizes = _span(size for value in values for size in value)
            found.append(f"{name} {sizes} in {_span(map(len, values))} layers")
        else:
            found.append(f"{name} {_span(values)}")
    return "; ".join(found)


def _span(values: Iterable[Any]) -> str:
    """Numbers from the least to the largest, words in a row.

    >>> _span([3, 5, 4]), _span(["relu", "tanh", "relu"])
    ('3–5', 'relu, tanh')
    """
    found = list(values)
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in found):
        low, high = min(found), max(found)
        return f"{low:g}" if low == high else f"{low:g}–{high:g}"
    return ", ".join(dict.fromkeys(str(value).lower() for value in found))


def _data(config: ZooConfig) -> str:
    """A data set and the size of its images; random functions have no names."""
    name = config.data or config.task
    name = "random functions" if name.startswith(TEACHER) else name
    return name if config.shape is None else f"{name} {config.shape[-2]} × {config.shape[-1]}"
