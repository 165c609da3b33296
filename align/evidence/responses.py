"""Responses: scores of neurons from what they do on pictures, beside what the weights say."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from wsgraph.network import Network
from wsgraph.origin import Origin
from wsgraph.randomness import OwnDraws

from ..methods.activation_matching import correlations
from ..running.batches import for_model
from ..running.covariance import in_units_of_noise
from ..running.perceptron import is_perceptron
from ..running.pictures import enough, is_image, shown
from .closed_form import LARGE

FEWEST = 8
"""Of large pictures; large networks see no more of any, which take long enough, and are hardly worse than 64."""
AT_ONCE = 16
"""Pictures, whose activations are in memory together."""


class Responses(nn.Module):
    r"""Adds to each score how alike two neurons respond to pictures that nobody took, in units of its noise:

    .. math:: S_g \mathrel{+}= \gamma_g\, z(C_g)

    with γ > 0 a learned function of the noise, as in :class:`~align.evidence.closed_form.Evidence`. What a deep
    convolution responds to depends on how the kernels, strides and poolings before it meet edges and areas of an image;
    the weights alone hardly tell.

    Networks are run for that, so the graph of one, at least, must be that of a module (:class:`wsgraph.origin.Origin`),
    in which the other is run, too, if it has none. Where there is no module, or it does not read images, the scores
    stay as they are, and so do those of plain MLPs, which are understood from their weights.

    Args:
        count: How many pictures (:mod:`align.running.pictures`), fewer of those above 32 × 32 and for large networks.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.gate = nn.Linear(1, 1)
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def forward(self, a: Sequence[Network], b: Sequence[Network], scores: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Scores with the responses, of K pairs of one architecture: group name → ``[K, n_a, n_b]``."""
        kind = a[0].like.device.type
        known = torch.amp.is_autocast_available(kind)
        with torch.autocast(kind, enabled=False) if known else nullcontext():  # correlations need all digits
            alike = self._alike(a, b)
            return {name: s + self._term(alike[name]).to(s) if name in alike else s for name, s in scores.items()}

    def _term(self, alike: Tensor) -> Tensor:
        z, noise = in_units_of_noise(alike.to(self.gate.weight))
        return softplus(self.gate(noise.log()[:, None]))[..., None] * z

    @torch.no_grad()
    def _alike(self, a: Sequence[Network], b: Sequence[Network]) -> dict[str, Tensor]:
        """Correlations of responses: group name → ``[K, n_a, n_b]``, of groups whose responses are seen."""
        found = [self._of_pair(x, y) for x, y in zip(a, b, strict=True)]
        blank = {name: torch.zeros_like(alike) for each in found for name, alike in each.items()}
        # Nothing is said of pairs that cannot be run, and what overflows is like nothing.
        return {name: torch.stack([each.get(name, no) for each in found]).nan_to_num(0.0) for name, no in blank.items()}

    def _of_pair(self, a: Network, b: Network) -> dict[str, Tensor]:
        origins = _origins(a, b)
        shape = _shape(origins)
        if shape is None or not is_image(shape) or is_perceptron(a.spec):
            return {}
        large = sum(t.numel() for t in a.tensors.values()) > LARGE
        count = min(self.count, FEWEST) if large else enough(self.count, shape, FEWEST)
        try:
            left, right = (origin.running(n.tensors) for origin, n in zip(origins, (a, b), strict=True))
            x = for_model(shown(count, shape), left)
            with OwnDraws():
                return correlations(left, right, (a.spec, b.spec), x.split(AT_ONCE))
        except Exception as error:  # whatever somebody's module raises, its weights can be aligned
            warnings.warn(f"the networks fail on pictures, so that only their weights are seen: {error}", stacklevel=2)
            return {}


def _origins(a: Network, b: Network) -> list[Origin]:
    """What both networks run in: one that has no module, in the other's, if it is of that size; nothing otherwise."""
    sizes = [{name: t.shape for name, t in n.tensors.items()} for n in (a, b)]
    spare = a.origin or b.origin if sizes[0] == sizes[1] else None
    found = [origin for n in (a, b) if (origin := n.origin or spare) is not None]
    return found if len(found) == 2 else []


def _shape(origins: Sequence[Origin]) -> tuple[int, ...] | None:
    """Of the input of both, as it was given with either; ``None`` if they do not read the same."""
    given = [origin for origin in origins if origin.example_input is not None]
    shapes = {origin.shape for origin in given or origins}
    return shapes.pop() if len(shapes) == 1 else None
