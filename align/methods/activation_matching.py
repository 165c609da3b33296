r"""Activation Matching: neurons that fire alike on the same inputs belong together.

.. math:: S_{ij} = \mathrm{corr}\big(x^a_i, x^b_j\big), \qquad P_g = \arg\max_P \langle S, P\rangle
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from wsgraph import Spec, to_graph
from wsgraph.randomness import OwnDraws, seeded
from wsgraph.shell import shell

from ..alignment import Alignment, aligned_graphs
from ..progress import progress
from ..running.batches import Samples, input_batches
from ..running.inputs import Inputs, run
from .activations import captured


class TooFewError(ValueError):
    """There are not enough samples to see how neurons vary."""


SIMILARITIES = ("correlation", "covariance", "inner")


@torch.no_grad()
def activation_matching(
    a: nn.Module,
    b: nn.Module,
    *,
    data: Samples,
    similarity: str = "correlation",
    samples: int | None = None,
    example_input: Tensor | None = None,
    spec: Spec | None = None,
    generator: torch.Generator | None = None,
) -> Alignment:
    """Match neurons by their activations, after the nonlinearity, over all of ``data`` in one pass.

    Values are seen where a linear layer or a convolution reads them, and those that none reads (queries and keys) where
    one writes them; inside ``nn.MultiheadAttention`` and recurrent layers too. A warning names the groups whose values
    are hidden in other functions; they stay as they are.

    Args:
        a: The reference.
        b: The network to permute.
        data: Inputs (tensor, pair, dict or loader), or ``"noise"`` for Gaussian ones.
        similarity: ``correlation`` (blind to a neuron's scale), ``covariance`` or ``inner`` (product).
        samples: How many inputs ``data="noise"`` draws, 5000 unless given. Fewer are faster where a network is costly.
        example_input: Needed where the input's shape cannot be inferred.
        spec: The symmetry; traced when omitted.
        generator: Randomness of the noise; by default the same in every call.
    """
    if similarity not in SIMILARITIES:
        raise ValueError(f"similarity '{similarity}' is not one of {SIMILARITIES}")
    start = time.perf_counter()
    left_graph, right_graph = aligned_graphs(*(to_graph(m, example_input, spec=spec) for m in (a, b)))
    specs = left_graph.spec, right_graph.spec
    moments: Watched = {}
    private, draws = [shell(m).eval() for m in (a, b)], OwnDraws()
    with progress("activation matching", None) as step:
        for x in input_batches(data, a, example_input, generator or seeded(), samples):
            with draws:
                _see(x, private, specs, moments)
            step()
    scores = _scores(*specs, moments, similarity)
    _require_finite(scores)
    return Alignment(left_graph, right_graph, scores, None, "activation_matching", time.perf_counter() - start)


@torch.no_grad()
def correlations(a: nn.Module, b: nn.Module, specs: tuple[Spec, Spec], batches: Iterable[Inputs]) -> dict[str, Tensor]:
    """How alike neurons of two networks fire: group → ``[n_a, n_b]``, mean over all weights that read it."""
    moments: Watched = {}
    for x in batches:
        _see(x, (a, b), specs, moments)
    found: dict[str, list[Tensor]] = {}
    for (name, _), moment in moments.items():
        found.setdefault(name, []).append(moment.similarity("correlation"))
    return {name: torch.stack(each).mean(0) for name, each in found.items()}


def _see(x: Inputs, networks: Sequence[nn.Module], specs: Sequence[Spec], moments: Watched) -> None:
    """Add what both networks say of one batch."""
    left, right = (_values(m, own, x) for m, own in zip(networks, specs, strict=True))
    for key in left:
        moments.setdefault(key, Moments()).add(left[key], right[key])


def _scores(spec: Spec, other: Spec, moments: Watched, similarity: str) -> dict[str, Tensor]:
    """Similarities summed over all weights that read a group."""
    scores: dict[str, Tensor] = {}
    for (name, _), moment in moments.items():
        if moment.count < 2 and similarity != "inner":
            raise TooFewError(
                f"activation matching saw {moment.count} sample of group '{name}', and one sample does not tell how "
                "neurons vary: pass data with at least two inputs, better hundreds"
            )
        s = moment.similarity(similarity)
        scores[name] = scores[name] + s if name in scores else s
    around = {parent for g in spec.free if (parent := g.parent) is not None}  # known by what is nested in them
    unseen = [g.name for g in spec.free if g.name not in scores and g.name not in around]
    if unseen:
        warnings.warn(
            f"no linear layer or convolution is seen to read or write groups {unseen}; they stay as they are. "
            "Start another method from here, as in 'activation_matching+weight_matching'",
            stacklevel=4,
        )
    device = next((s.device for s in scores.values()), None)
    sizes = {g.name: (g.size, other.groups[g.name].size) for g in spec.free}
    stay = {g: torch.eye(*sizes[g], device=device, dtype=torch.float64) for g in unseen}
    known = [g.name for g in spec.free if g.parent or g.name in around]
    quiet = {g: torch.zeros(sizes[g], device=device, dtype=torch.float64) for g in known}
    return {g.name: (stay | quiet | scores)[g.name] for g in spec.free}


def _require_finite(scores: Mapping[str, Tensor]) -> None:
    for name, s in scores.items():
        if not s.isfinite().all():
            raise ValueError(
                f"on this data the values of group '{name}' are not finite in one of the networks: the data holds NaN "
                "or Inf, or values overflow; pass data as the networks were trained on, or networks in float32"
            )


def _values(model: nn.Module, spec: Spec, x: Inputs) -> dict[tuple[str, int], Tensor]:
    """(group, reading weight) → ``[samples, n]``."""
    out: dict[tuple[str, int], Tensor] = {}

    def capture(group: str, reader: int, values: Tensor) -> None:
        out[group, reader] = values if (group, reader) not in out else torch.cat([out[group, reader], values])

    with captured(model, spec, capture):
        run(model, x)
    return out


@dataclass
class Moments:
    """Streaming first and second moments of two sets of variables, in float64; no sample is kept."""

    count: int = 0
    sums: list[Tensor] = field(default_factory=list)

    def add(self, x: Tensor, y: Tensor) -> None:
        """Count samples ``[m, n_a]`` and ``[m, n_b]``."""
        x, y = x.double(), y.double()
        new = [x.sum(0), y.sum(0), x.square().sum(0), y.square().sum(0), x.T @ y]
        self.sums = [old + n for old, n in zip(self.sums, new, strict=True)] if self.sums else new
        self.count += len(x)

    def similarity(self, kind: str) -> Tensor:
        """``[n_a, n_b]``; a variable that never changes is similar to nothing."""
        mean_x, mean_y, square_x, square_y, cross = (s / self.count for s in self.sums)
        if kind == "inner":
            return cross
        covariance = cross - mean_x[:, None] * mean_y
        if kind == "covariance":
            return covariance
        std_x, std_y = ((q - m.square()).clamp_min(0).sqrt() for q, m in ((square_x, mean_x), (square_y, mean_y)))
        return covariance / (_floored(std_x, mean_x)[:, None] * _floored(std_y, mean_y))


def _floored(std: Tensor, mean: Tensor) -> Tensor:
    """Deviations that are no less than those of the rounding of a constant, nor than a trifle of the largest."""
    largest = std.nan_to_num(0.0, posinf=0.0).max().clamp_min(1e-12)
    return std.maximum(1e-6 * mean.abs()).clamp_min(1e-4 * largest)


Watched = dict[tuple[str, int], Moments]
"""Moments of what both networks say, by group and the weight that reads it."""
