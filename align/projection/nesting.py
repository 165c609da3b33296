"""Groups nested in others, level by level: what is inside is solved first, what is around it takes the gain."""

from __future__ import annotations

from collections.abc import Iterable

from wsgraph import Spec


def nested_first(spec: Spec, names: Iterable[str]) -> list[str]:
    """Groups and all they are nested in, from the inside out."""
    all_of_them = dict.fromkeys(outer for name in names for outer in spec.lineage(name))
    return sorted(all_of_them, key=lambda name: -len(list(spec.lineage(name))))
