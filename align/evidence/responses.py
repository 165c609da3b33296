"""Responses: scores of neurons from what they do on pictures, beside what the weights say."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from wsgraph.network import Network
from wsgraph.randomness import OwnDraws

from ..methods.activation_matching import correlations
from ..running.batches import for_model
from ..running.covariance import in_units_of_noise
from ..running.perceptron import is_perceptron
from ..running.pictures import is_image, shown
from .closed_form import LARGE

SIDE, FEWEST = 32, 8
"""Of pictures above this side there are fewer, with as many places in all, but never fewer than; large networks see
no more than those, which take long enough, and are hardly worse than 64."""
AT_ONCE = 16
"""Pictures, whose activations are in memory together."""


class Responses(nn.Module):
    r"""Adds to each score how alike two neurons respond to pictures that nobody took, in units of its noise:

    .. math:: S_g \mathrel{+}= \gamma_g\, z(C_g)

    with γ > 0 a learned function of the noise, as in :class:`~align.evidence.closed_form.Evidence`. What a deep
    convolution responds to depends on how the kernels, strides and poolings before it meet edges and areas of an image;
    the weights alone hardly tell.

    Networks are run for that, so their graphs must be those of modules (:class:`wsgraph.origin.Origin`). Where there is
    none, or it does not read images, the scores stay as they are, and so do those of plain MLPs, which are understood
    from their weights.

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
        shapes = {None if n.origin is None else n.origin.shape for n in (*a, *b)}
        shape = shapes.pop()
        if shapes or shape is None or not is_image(shape) or is_perceptron(a[0].spec):
            return {}
        found = [self._of_pair(x, y, shape) for x, y in zip(a, b, strict=True)]
        if not all(found):
            return {}
        # What overflows is like nothing.
        return {name: torch.stack([each[name] for each in found]).nan_to_num(0.0) for name in found[0]}

    def _of_pair(self, a: Network, b: Network, shape: tuple[int, ...]) -> dict[str, Tensor]:
        large = sum(t.numel() for t in a.tensors.values()) > LARGE
        few = 0 if large else self.count * SIDE**2 // (shape[1] * shape[2])
        try:
            left, right = (n.origin.running(n.tensors) for n in (a, b) if n.origin is not None)
            x = for_model(shown(min(self.count, max(few, FEWEST)), shape), left)
            with OwnDraws():
                return correlations(left, right, (a.spec, b.spec), x.split(AT_ONCE))
        except Exception as error:  # whatever somebody's module raises, its weights can be aligned
            warnings.warn(f"the networks fail on pictures, so that only their weights are seen: {error}", stacklevel=2)
            return {}
