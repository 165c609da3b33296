"""The loss of networks between a and the permuted b, for methods that optimise it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from wsgraph import Permutation, Spec
from wsgraph.modules import tensors_of
from wsgraph.randomness import OwnDraws
from wsgraph.shell import shell

from ..running.answers import Output, logits
from ..running.batches import Samples, batches, for_model, is_pair
from ..running.consensus import answered
from ..running.inputs import Inputs, count, first
from ..running.interpolation import interpolate
from ..running.outputs import Loss, call, evaluate, judged


@dataclass
class LineLoss:
    """L(λ a + (1 − λ) P·b) on batches of data.

    Args:
        a: The reference; a shell of it is called.
        b: The network to permute.
        spec: Their architecture.
        loss: Of outputs and targets.
        data: Pairs (inputs, targets); without targets, the networks' own mean answers stand for them.
        check: Number of samples the hard loss is measured on.
        output: Picks the tensor that the loss is about.
        example_input: Shape of noise, where it cannot be inferred.
        generator: Randomness of noise.
    """

    a: nn.Module
    b: nn.Module
    spec: Spec
    loss: Loss
    data: Samples
    check: int = 2048
    output: Output = logits
    example_input: Any = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        self.data, self.loss = answered(
            self.a, self.b, self.data, self.loss, self.example_input, generator=self.generator, output=self.output
        )
        self.left = {k: t.detach() for k, t in tensors_of(self.a).items()}
        self.right = {k: t.detach() for k, t in tensors_of(self.b).items()}
        self._buffers = {k for k, _ in self.a.named_buffers()}
        self._held = self._first(self.check)
        self._private, self._draws = shell(self.a).eval(), OwnDraws()

    def _first(self, samples: int) -> list[tuple[Inputs, Tensor]]:
        held: list[tuple[Inputs, Tensor]] = []
        for x, y in batches(self.data, self.a):
            if y is None:
                raise ValueError("some batches have targets and this one has none; pass targets with all, or with none")
            left = samples - sum(count(inputs) for inputs, _ in held)
            held.append((first(x, left), y[:left]))
            if left <= count(x):
                break
        return held

    def between(self, tensors: Mapping[str, Tensor], weight: float) -> dict[str, Tensor]:
        """weight · a + (1 − weight) · tensors."""
        return interpolate(self.left, tensors, weight)

    def __call__(self, tensors: Mapping[str, Tensor], weight: float, batch: tuple[Inputs, Tensor]) -> Tensor:
        """Differentiable in parameters; norm statistics are taken as they are."""
        x, y = batch
        now = {k: t.detach() if k in self._buffers else t for k, t in self.between(tensors, weight).items()}
        with self._draws:
            outputs = call(self._private, now, x, self.output)
        return judged(self.loss, outputs, y)

    def hard(self, permutation: Permutation) -> float:
        """Loss half way to the hard permutation of b, on held data."""
        middle = self.between(permutation.apply(self.right), 0.5)
        return float(evaluate(self._private, [middle], self.loss, self._held, self.output)[0])

    def stream(self, size: int, generator: torch.Generator) -> Iterator[tuple[Inputs, Tensor]]:
        """Random batches for ever (the loader's own, again and again, if ``data`` is one)."""
        if is_pair(self.data):
            x = for_model(self.data[0], self.a)
            y = self.data[1].to(x.device)
            while True:
                chosen = torch.randint(len(x), (min(size, len(x)),), generator=generator).to(x.device)
                yield x[chosen], y[chosen]
        while True:
            yield from ((x, y) for x, y in batches(self.data, self.a) if y is not None)


class Best:
    """The permutation of lowest hard loss seen so far."""

    def __init__(self) -> None:
        self.permutation: Permutation | None = None
        self.loss = float("inf")

    def offer(self, permutation: Permutation, loss: float) -> None:
        if self.permutation is None or loss < self.loss or math.isnan(self.loss):
            self.permutation, self.loss = permutation, loss
