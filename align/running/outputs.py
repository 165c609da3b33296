"""What networks answer: the outputs of one with other tensors, and the loss of several on data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from wsgraph.randomness import OwnDraws

from .answers import Output, logits
from .batches import Samples, batches
from .inputs import Inputs, arguments, count
from .layout import channels_last
from .stacked import over_networks

Loss = Callable[[Tensor, Tensor], Tensor]
"""Mean loss of outputs and targets, as ``torch.nn.functional.cross_entropy``."""


def loss_of(targets: Tensor) -> Loss:
    """Cross-entropy for classes, squared error for numbers."""
    return F.mse_loss if targets.is_floating_point() else F.cross_entropy


def call(template: nn.Module, tensors: Mapping[str, Tensor], x: Inputs, output: Output = logits) -> Tensor:
    """Outputs of ``template`` with other tensors; all names of tied ones are among them.

    For a moment they are in the template itself, so let it be a shell of the caller's module.
    """
    return output(functional_call(template, dict(tensors), *arguments(x), tie_weights=False))


def judged(loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor:
    """The loss; what it makes nothing of is refused in words about data."""
    if loss is F.cross_entropy and targets.is_floating_point() and ((targets < 0) | (targets > 1)).any():
        raise ValueError(
            "the targets in data= are numbers below 0 or above 1, and cross-entropy takes classes or their "
            "probabilities: for regression pass loss=torch.nn.functional.mse_loss"
        )
    try:
        return loss(outputs, targets)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"the loss does not take the targets in data=, of shape {list(targets.shape)} and type {targets.dtype}, "
            f"with outputs of shape {list(outputs.shape)}. Cross-entropy takes numbers of classes in torch.long, one "
            f"for each sample; for anything else pass loss=, as in loss=torch.nn.functional.mse_loss. It says: {said}"
        ) from error


@torch.no_grad()
def evaluate(
    template: nn.Module,
    networks: Sequence[Mapping[str, Tensor]],
    loss: Loss,
    data: Samples,
    output: Output = logits,
) -> tuple[Tensor, Tensor | None]:
    """Mean loss and accuracy of several networks of one architecture, vectorised over the networks where torch can.

    Args:
        template: A module of the architecture in eval mode; not the caller's own, but a shell of it.
        networks: Their tensors.
        loss: Of outputs and targets.
        data: A pair (inputs, targets), a dict with ``labels``, or a loader of such.
        output: Picks the tensor that the loss is about, where a network returns more than one.

    Shapes:
        - **output:** two vectors of ``len(networks)``; the second is ``None`` when targets are not classes
    """
    stacked = {k: torch.stack([n[k].detach() for n in networks]) for k in networks[0]} if len(networks) > 1 else None
    total, hits, seen, classes = torch.zeros(len(networks)), torch.zeros(len(networks)), 0, False
    draws = OwnDraws()
    for x, y in batches(data, template):
        if y is None:
            raise ValueError("data has no targets; pass (inputs, targets) or a loader of such pairs")
        with draws:
            if stacked is None:
                out = call(template, networks[0], channels_last(template, x), output)[None]
            else:
                out = over_networks(template, lambda n, x=x: call(template, n, x, output), stacked, rewind=False)
        total += count(x) * torch.stack([judged(loss, o, y) for o in out]).cpu()
        if out.dim() == 3 and y.dim() == 1 and not y.is_floating_point():
            classes = True
            hits += (out.argmax(-1) == y).sum(1).cpu()
        seen += count(x)
    return total / seen, hits / seen if classes else None
