"""Responses: scores of neurons from what they do on pictures, beside what the weights say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from wsgraph.network import Network
from wsgraph.randomness import OwnDraws

from .methods.activation_matching import correlations
from .running.batches import for_model
from .running.covariance import in_units_of_noise
from .running.pictures import shown


class Responses(nn.Module):
    r"""Adds to each score how alike two neurons respond to pictures that nobody took, in units of its noise:

    .. math:: S_g \mathrel{+}= \gamma_g\, z(C_g)

    with γ > 0 a learned function of the noise, as in :class:`~align.evidence.Evidence`. What a deep convolution
    responds to depends on how the kernels, strides and poolings before it meet edges and areas of an image; the weights
    alone hardly tell.

    Networks are run for that, so their graphs must be those of modules (:class:`wsgraph.origin.Origin`). Others, and
    those that do not read one tensor of real numbers, leave the scores as they are.

    Args:
        count: How many pictures (:mod:`align.running.pictures`); noise where inputs are no images.
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
        origins = {n.origin for n in (*a, *b)}
        shapes = {None if origin is None else origin.shape for origin in origins}
        shape = shapes.pop()
        if shapes or shape is None:  # no module, or nothing that can be shown to both
            return {}
        found = []
        for pair in zip(a, b, strict=True):
            left, right = (n.origin.running(n.tensors) for n in pair if n.origin is not None)
            specs = pair[0].spec, pair[1].spec
            with OwnDraws():
                found.append(correlations(left, right, specs, for_model(shown(self.count, shape), left)))
        return {name: torch.stack([each[name] for each in found]) for name in found[0]}
