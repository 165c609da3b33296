"""What every group of a network computes on data: values captured where a weight reads them.

Weights read their input after the nonlinearity, the norm and the pooling in between, so these are the activations that
matter to the rest of the network; a residual stream is read, and captured, several times. What no weight reads (queries
and keys, which only meet each other) is captured where a weight writes it. Attention and recurrent layers are single
functions to torch: what is inside the former is computed again, of the latter the states are captured.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from wsgraph import Axis, Spec
from wsgraph.blocks import group_of, is_inner
from wsgraph.modules import tensors_of
from wsgraph.spans import parts_along

_LINEAR = {F.linear, torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm, torch.addmm}
_CONV = {F.conv1d: 1, F.conv2d: 2, F.conv3d: 3, F.conv_transpose1d: 1, F.conv_transpose2d: 2, F.conv_transpose3d: 3}
_ATTENTION = inspect.signature(F.multi_head_attention_forward)
_RECURRENT = {getattr(torch, name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}
_OPERANDS = ("input", "mat1", "weight", "other", "mat2")

Capture = Callable[[str, int, Tensor], None]
"""Called with a group's name, the number of the weight that reads (or writes) it and the values ``[samples, n]``."""


class _Tap(TorchFunctionMode):
    """Watches every call that multiplies by one of the model's weights."""

    def __init__(self, model: nn.Module, spec: Spec, capture: Capture) -> None:
        self.names = {id(t): name for name, t in tensors_of(model).items() if t.dim() > 1}
        self.order = {name: k for k, name in enumerate(spec.params)}
        self.spec, self.capture = spec, capture
        self.free = {group.name for group in spec.free}
        axes = [_as_met(p.axes[p.reads]) for p in spec.params.values() if p.reads is not None]
        self.unread = self.free - {factor for axis in axes for part in axis.parts for factor in part}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func in _LINEAR or func in _CONV:
            operands = [*args, *(kwargs[k] for k in _OPERANDS if k in kwargs)]
            data, weight = operands[1:3] if func is torch.addmm else operands[:2]
            name = self.names.get(id(weight)) or self.names.get(id(weight._base))  # W, or a view as in x @ W.T
            reads = self.spec.params[name].reads if name is not None else None
            if name is not None and reads is not None:
                spatial = _CONV.get(func, 0)
                self._see(name, reads, data.detach().movedim(-1 - spatial, -1), self.free)
                if weight.dim() == 2 + spatial:
                    self._see(name, 1 - reads, out.detach().movedim(-1 - spatial, -1), self.unread)
        elif func is F.multi_head_attention_forward:
            self._see_attention(_ATTENTION.bind(*args, **kwargs).arguments)
        elif func in _RECURRENT:
            self._see_states(args, out)
        return out

    def _see(self, name: str, dim: int, values: Tensor, wanted: set[str]) -> None:
        """Capture the wanted groups of a weight's dimension from the values ``[..., n]`` that meet it."""
        axis = _as_met(self.spec.params[name].axes[dim])
        if values.shape[-1] == self.spec.axis_size(axis):  # else a part of a weight, or read along another axis
            self._see_parts(name, axis, values, wanted)

    def _see_parts(self, name: str, axis: Axis, values: Tensor, wanted: set[str]) -> None:
        values = values.detach().reshape(-1, values.shape[-1])
        for part, piece in parts_along(self.spec, axis, values, 1):
            for k, factor in enumerate(part):
                if factor in wanted:
                    self.capture(str(factor), self.order[name], piece.movedim(k + 1, -1).flatten(0, -2))

    def _see_attention(self, given: dict[str, Any]) -> None:
        """Queries, keys and values as ``nn.MultiheadAttention`` computes them, of one weight or of three."""
        inputs, bias = [given[k] for k in ("query", "key", "value")], given.get("in_proj_bias")
        whole, shift = given.get("in_proj_weight"), (None, None, None) if bias is None else bias.chunk(3)
        weights = [given[f"{k}_proj_weight"] for k in "qkv"] if whole is None else whole.chunk(3)
        for k, (x, weight, b) in enumerate(zip(inputs, weights, shift, strict=True)):
            name = self.names.get(id(weight if whole is None else whole))
            if name is not None:
                out, (written, read) = F.linear(x, weight, b), self.spec.params[name].axes
                third = len(written.parts) // 3
                axis = written if whole is None or not third else Axis(written.parts[k * third : (k + 1) * third])
                self._see_parts(name, read, x, self.free)
                if self.spec.axis_size(axis) == out.shape[-1]:
                    self._see_parts(name, axis, out, self.free)

    def _see_states(self, args: Any, out: Any) -> None:
        """Inputs of recurrent layers and states: of all steps in the last one, at the end in those below."""
        flat = next(a for a in args if isinstance(a, (tuple, list)) and a[0].dim() == 2)
        known = [self.names[id(w)] for w in flat if id(w) in self.names]
        hidden = [name for name in known if name.rpartition(".")[2].startswith("weight_hh")]
        steps, last = out[0], out[1]
        count = steps.shape[-1] // last.shape[-1]  # directions
        states = [*last[:-count], *steps.chunk(count, -1)]
        if len(hidden) == len(states):  # else weights are computed from parameters, and have no names
            self._see(known[0], 1, args[0], self.free)
            for name, state in zip(hidden, states, strict=True):
                self._see(name, 1, state, self.free)


def _as_met(axis: Axis) -> Axis:
    """The axis of the data that meets a weight's axis: for a convolution with groups that of all runs."""
    only = axis.parts[0][0]
    return Axis(((group_of(only),),)) if axis.parts == ((only,),) and is_inner(only) else axis


@contextmanager
def captured(model: nn.Module, spec: Spec, capture: Capture) -> Iterator[None]:
    """While active, ``capture`` is called for every group a weight of ``model`` reads, or writes if none reads it."""
    with _Tap(model, spec, capture):
        yield
