r"""Targets for inputs that have none: what two networks say together.

For classifiers that is the mean of their probabilities, for others the mean of their outputs. An average of the two
networks that is in one basin with both says the same; one that is not, does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsgraph.inputs import infer_example_input
from wsgraph.modules import tensors_of
from wsgraph.randomness import OwnDraws
from wsgraph.shell import shell

from .answers import Output, logits
from .batches import NOISE, TARGETS, Samples, batches, input_batches, is_pair
from .inputs import Inputs, first
from .outputs import Loss, call


@dataclass(frozen=True)
class Answered:
    """Batches of inputs with the networks' own answers; can be read again and again if the inputs can."""

    a: nn.Module
    b: nn.Module
    inputs: Samples
    classes: bool
    output: Output = logits

    @torch.no_grad()
    def __iter__(self) -> Iterator[tuple[Inputs, Tensor]]:
        draws, networks = OwnDraws(), [_private(m) for m in (self.a, self.b)]
        for x, _ in batches(self.inputs, self.a):
            with draws:
                said = [call(network, tensors, x, self.output) for network, tensors in networks]
            if self.classes:
                said = [s.softmax(class_dim(s)) for s in said]
            yield x, (said[0] + said[1]) / 2


def answered(
    a: nn.Module,
    b: nn.Module,
    data: Samples,
    loss: Loss,
    example_input: Any = None,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    output: Output = logits,
) -> tuple[Samples, Loss]:
    """Data with targets, and the loss for them: as given where there are targets, else :class:`Answered`.

    With cross-entropy, networks of two outputs or more are taken for classifiers; one of a single output is compared by
    squared error, and any other loss gets the mean of both outputs for its target.

    Args:
        a, b: The networks.
        data: Samples with targets or without, or ``"noise"``.
        loss: Of outputs and targets.
        example_input: Shape of the noise, where it cannot be inferred.
        samples: How much noise.
        generator: Randomness of the noise.
        output: Picks the tensor that the loss is about, where a network returns more than one.
    """
    if not isinstance(data, str) and has_targets(data):
        return data, loss
    if isinstance(data, str):
        data = torch.cat(list(probes(a, data, example_input, samples, generator)))
    inputs, _ = next(batches(data, a))
    with OwnDraws(), torch.no_grad():
        outputs = call(*_private(a), first(inputs, 1), output)
    classes = loss is F.cross_entropy and outputs.shape[class_dim(outputs)] > 1
    own_loss: Loss = soft_cross_entropy if classes else F.mse_loss if loss is F.cross_entropy else loss
    found = Answered(a, b, data, classes, output)
    if isinstance(data, Tensor):
        parts = list(zip(*found, strict=True))
        return (torch.cat(parts[0]), torch.cat(parts[1])), own_loss
    return found, own_loss


def _private(network: nn.Module) -> tuple[nn.Module, dict[str, Tensor]]:
    """A network and its tensors, none of which the caller would see forward write to."""
    private = shell(network).eval()
    return private, tensors_of(private)


def has_targets(data: Samples) -> bool:
    """Whether samples come with targets; of a loader, the first batch tells."""
    if isinstance(data, Tensor):
        return False
    if is_pair(data):
        return True
    if isinstance(data, Mapping):
        return any(name in data for name in TARGETS)
    batch = next(iter(data)) if isinstance(data, Iterable) and not isinstance(data, Iterator) else None
    if isinstance(batch, Mapping):
        return any(name in batch for name in TARGETS)
    return batch is None or (isinstance(batch, (tuple, list)) and len(batch) == 2)


def probes(
    model: nn.Module,
    data: str = NOISE,
    example_input: Any = None,
    samples: int | None = None,
    generator: torch.Generator | None = None,
) -> Iterator[Any]:
    """Inputs that stand for data where there is none: Gaussian noise, or random tokens for what reads tokens."""
    example = infer_example_input(model) if example_input is None else example_input
    sizes = [m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding)]
    if not isinstance(example, Tensor) or example.is_floating_point() or not sizes:
        yield from input_batches(data, model, example, generator, samples)
        return
    shape = (samples or TOKENS, *example.shape[1:])  # tokens that every embedding has
    yield torch.randint(min(sizes), shape, generator=generator, dtype=example.dtype)


TOKENS = 256
"""Sequences of random tokens, unless another number is asked for."""


def class_dim(outputs: Tensor) -> int:
    """Where classes are: last, but after the batch in maps ``[batch, classes, height, width]``."""
    return 1 if outputs.dim() > 3 else -1


def divergence(outputs: Tensor, targets: Tensor) -> Tensor:
    r"""How far answers are from targets, sample by sample: :math:`\mathrm{KL}(t \,\|\, \mathrm{softmax}(o))`."""
    dim = class_dim(outputs)
    return (torch.xlogy(targets, targets) - targets * outputs.log_softmax(dim)).sum(dim)


def soft_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean :func:`divergence`."""
    return divergence(outputs, targets).mean()
