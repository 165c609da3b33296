"""The laws of an aligner F as functions: call them on your own aligners, as our tests do on ours.

Each draws random permutations, compares the hard permutations an aligner finds and, where it has them, its scores,
and raises ``AssertionError`` with the groups and the size of the violation. They hold where the best matching is
unique; of two equal neurons nobody can say which is which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from wsgraph import Permutation, WeightGraph
from wsgraph.testing import TOLERANCE

from .alignment import Alignment

Aligner = Callable[[WeightGraph, WeightGraph], Alignment]
"""Answers how its second network must be permuted to match its first."""


def assert_exact(aligner: Aligner, graph: WeightGraph, generator: torch.Generator | None = None) -> None:
    """F(v, g·v) = gᵀ: what undoes g brings a permuted copy back.

    Args:
        aligner: Any callable of two networks, such as a :class:`~align.DeepAlign`.
        graph: A network v whose neurons all differ.
        generator: Of g; torch's own by default.

    Example:
        >>> import align, torch
        >>> from wsgraph import to_graph
        >>> v = to_graph(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)))
        >>> assert_exact(align.DeepAlign(), v)
        >>> lazy = lambda a, b: align.Alignment(a, b, maps={"0": torch.arange(8)})  # leaves b as it is
        >>> assert_exact(lazy, v, torch.Generator().manual_seed(0))
        Traceback (most recent call last):
        ...
        AssertionError: the aligner is not exact, F(v, g·v) ≠ gᵀ: ... of 8 partners differ in group '0'
    """
    __tracebackhide__ = True
    g = Permutation.random(graph.spec, generator)
    found = _answer(aligner, graph, g.apply(graph))
    _compare("not exact, F(v, g·v) ≠ gᵀ", found.permutation, g.inverse())


def assert_equivariant(
    aligner: Aligner, a: WeightGraph, b: WeightGraph, generator: torch.Generator | None = None
) -> float:
    """F(g·a, g'·b) = g F(a, b) g'ᵀ: the answer does not depend on the orders the neurons came in.

    Args:
        aligner: Any callable of two networks.
        a: The reference network.
        b: One of the same architecture and widths, not merely a permuted copy.
        generator: Of g and g'; torch's own by default.

    Returns:
        The largest difference of scores, relative to the largest score; 0 for an aligner without scores.
    """
    __tracebackhide__ = True
    law = "not equivariant, F(g·a, g'·b) ≠ g F(a, b) g'ᵀ"
    g, h = (Permutation.random(graph.spec, generator) for graph in (a, b))
    plain, moved = _answer(aligner, a, b), _answer(aligner, g.apply(a), h.apply(b))
    expected = {name: s[_index(g, name, s)][:, _index(h, name, s)] for name, s in plain.scores.items()}
    error = _compare_scores(law, moved.scores, expected)
    _compare(law, moved.permutation, g @ plain.permutation @ h.inverse())
    return error


def assert_swap(aligner: Aligner, a: WeightGraph, b: WeightGraph) -> float:
    """F(b, a) = F(a, b)ᵀ: neither of the two networks is the boss.

    Args:
        aligner: Any callable of two networks.
        a: A network.
        b: One of the same architecture and widths.

    Returns:
        The largest difference of scores, relative to the largest score; 0 for an aligner without scores.
    """
    __tracebackhide__ = True
    law = "not symmetric, F(b, a) ≠ F(a, b)ᵀ"
    forth, back = _answer(aligner, a, b), _answer(aligner, b, a)
    error = _compare_scores(law, back.scores, {name: s.mT for name, s in forth.scores.items()})
    _compare(law, back.permutation, forth.permutation.inverse())
    return error


def assert_laws(aligner: Aligner, a: WeightGraph, b: WeightGraph, generator: torch.Generator | None = None) -> float:
    """All of them on one pair: exact on a, equivariant, and indifferent to which network comes first.

    An aligner that draws, or that only climbs to the nearest optimum, need not obey; take those laws it claims.

    Returns:
        The largest difference of scores, relative to the largest score.
    """
    __tracebackhide__ = True
    assert_exact(aligner, a, generator)
    return max(assert_equivariant(aligner, a, b, generator), assert_swap(aligner, a, b))


def _answer(aligner: Aligner, a: WeightGraph, b: WeightGraph) -> Alignment:
    __tracebackhide__ = True
    found = aligner(a, b)
    if not isinstance(found, Alignment):
        raise TypeError(
            f"the aligner returned a {type(found).__name__}, expected an Alignment: "
            "return align.Alignment(a, b, scores), or align.Alignment(a, b, maps=permutation.maps)"
        )
    return found


def _compare(law: str, found: Permutation, expected: Permutation) -> None:
    __tracebackhide__ = True
    wrong = []
    for name, idx in expected.maps.items():
        got = found.maps.get(name, torch.arange(len(idx)))  # a group left out is not permuted
        count = int((got.cpu() != idx.cpu()).sum())
        wrong += [f"{count} of {len(idx)} partners differ in group '{name}'"] * (count > 0)
    assert not wrong, f"the aligner is {law}: {', '.join(wrong)}"


def _compare_scores(law: str, found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> float:
    __tracebackhide__ = True
    assert found.keys() == expected.keys(), (
        f"the aligner is {law}: scores of the groups {sorted(found)} in one answer and {sorted(expected)} in the other"
    )
    errors = {name: _relative(s, found[name]) for name, s in expected.items()}
    wrong = [
        f"relative error {error:.1e} in group '{name}'"
        for name, error in errors.items()
        if not error <= TOLERANCE[found[name].dtype]  # nan is no equality
    ]
    assert not wrong, f"the scores of the aligner are {law}: {', '.join(wrong)}"
    return max(errors.values(), default=0.0)


def _relative(expected: Tensor, found: Tensor) -> float:
    a, b = expected.detach().double(), found.detach().double()
    return float((a - b).abs().max() / a.abs().max().clamp_min(1e-30)) if a.numel() else 0.0


def _index(permutation: Permutation, group: str, scores: Tensor) -> Tensor:
    return permutation.maps[group].to(scores.device)
