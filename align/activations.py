"""What every group of a network computes on data: values captured where a weight reads them.

Weights read their input behind the nonlinearity, the norm and the pooling in between, so these are the activations that
matter to the rest of the network; a residual stream is read, and captured, several times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from wsgraph import Spec
from wsgraph.blocks import is_inner
from wsgraph.modules import tensors_of

_LINEAR = {F.linear, torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm}
_CONV = {F.conv1d: 1, F.conv2d: 2, F.conv3d: 3, F.conv_transpose1d: 1, F.conv_transpose2d: 2, F.conv_transpose3d: 3}
_OPERANDS = ("input", "weight", "other", "mat2")

Capture = Callable[[str, int, Tensor], None]
"""Called with a group's name, the number of the reading weight and the values ``[samples, n]``."""


class _Tap(TorchFunctionMode):
    """Watches every call that multiplies by one of the model's weights."""

    def __init__(self, model: nn.Module, spec: Spec, capture: Capture) -> None:
        self.names = {id(t): name for name, t in tensors_of(model).items() if t.dim() > 1}
        self.order = {name: k for k, name in enumerate(spec.params)}
        self.spec, self.capture = spec, capture

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _LINEAR or func in _CONV:
            data, weight = [*args, *(kwargs[k] for k in _OPERANDS if k in kwargs)][:2]
            name = self.names.get(id(weight)) or self.names.get(id(weight._base))  # W, or a view as in x @ W.T
            if name is not None:
                self._read(name, data.detach(), _CONV.get(func))
        return func(*args, **kwargs)

    def _read(self, name: str, data: Tensor, spatial: int | None) -> None:
        reads = self.spec.params[name].reads
        if reads is None:
            return
        axis = self.spec.params[name].axes[reads]
        values = data.movedim(-1 if spatial is None else -1 - spatial, -1)
        if values.shape[-1] != self.spec.axis_size(axis):  # a part of a weight, or one that is read along another axis
            return
        values = values.reshape(-1, values.shape[-1])
        start = 0
        for part in axis.parts:
            sizes = [self.spec.factor_size(f) for f in part]
            piece = values[:, start : start + torch.Size(sizes).numel()].unflatten(-1, sizes)
            start += torch.Size(sizes).numel()
            for k, factor in enumerate(part):
                if isinstance(factor, str) and not is_inner(factor) and not self.spec.groups[factor].pinned:
                    self.capture(factor, self.order[name], piece.movedim(k + 1, -1).flatten(0, -2))


@contextmanager
def captured(model: nn.Module, spec: Spec, capture: Capture) -> Iterator[None]:
    """While active, ``capture`` is called for every group a weight of ``model`` reads."""
    with _Tap(model, spec, capture):
        yield
