"""Weights that can be permuted, compared and averaged; what is none of these is told what it is and what to do."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .spec import Spec
from .sums import PART

_FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
_QUANTISED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized", "torch.ao.nn.sparse.quantized")


def require_weights(tensors: Mapping[str, Tensor]) -> None:
    """Raise unless every tensor is dense, not empty, and either a real number of 16 bits or more or a plain integer."""
    for name, tensor in tensors.items():
        if nn.parameter.is_lazy(tensor):
            raise ValueError(f"'{name}' is lazy and has no shape yet: call the model once on an input, then pass it")
        if tensor.layout != torch.strided:
            raise TypeError(
                f"'{name}' is stored as {tensor.layout}, expected a dense tensor: pass it as .to_dense(); in a pruned "
                "network zeros are recognised by themselves"
            )
        if tensor.is_quantized:
            raise TypeError(f"'{name}' is quantised ({tensor.dtype}), expected real numbers: pass it as .dequantize()")
        if tensor.is_complex():
            raise TypeError(
                f"'{name}' is complex ({tensor.dtype}), expected real numbers: aligners compare and average real "
                "weights only; keep real and imaginary part as two parameters"
            )
        if tensor.is_floating_point() and tensor.dtype not in _FLOATS:
            raise TypeError(
                f"'{name}' is of type {tensor.dtype}, which torch stores but cannot compute with, expected one of "
                f"{[str(d) for d in _FLOATS]}: pass it as .to(torch.bfloat16)"
            )
        if tensor.dim() > 1 and tensor.numel() == 0:
            raise ValueError(
                f"'{name}' has shape {tuple(tensor.shape)}, a layer without neurons; expected at least one on every "
                "axis: leave the layer out"
            )


def require_numbers(spec: Spec, tensors: Mapping[str, Tensor]) -> None:
    """Raise if integers stand where a Spec has neurons that move: no aligner would see them. Masks (bool) may."""
    if not any(tensor.is_floating_point() for tensor in tensors.values()):
        kinds = sorted({str(tensor.dtype) for tensor in tensors.values()})
        raise TypeError(f"no entry holds real numbers, all are of type {', '.join(kinds)}: pass weights as .float()")
    for name, tensor in tensors.items():
        if tensor.is_floating_point() or tensor.dtype == torch.bool:
            continue
        if any(not spec.groups[group].pinned for axis in spec.params[name].axes for group in axis.groups):
            raise TypeError(
                f"'{name}' holds integers ({tensor.dtype}) for neurons that can be permuted, expected real numbers: "
                "pass weights as .float(), masks as .bool()"
            )


def require_finite(tensors: Mapping[str, Tensor]) -> None:
    """Raise if a value is NaN or infinite.

    A sum is finite unless a value is not (or the sum overflows, which the second look settles).
    """
    floats = {k: t.detach() for k, t in tensors.items() if t.is_floating_point() and not t.is_meta}
    if not floats:
        return
    sums = torch.stack([_sum(t).cpu() for t in floats.values()])
    if torch.isfinite(sums).all():
        return
    for name, tensor in floats.items():
        bad = int((~torch.isfinite(tensor)).sum())
        if bad:
            raise ValueError(
                f"'{name}' holds {bad} NaN or infinite values of {tensor.numel()}: the network has diverged or its "
                "file is damaged. Such weights cannot be aligned; train or load it again."
            )


def _sum(tensor: Tensor) -> Tensor:
    """Of all values; those of 16 bits are widened, in large tensors some rows at a time."""
    dtype = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    if tensor.dtype == dtype or tensor.numel() <= PART:
        return tensor.sum(dtype=dtype)
    rows = max(1, PART * len(tensor) // tensor.numel())
    return torch.stack([part.sum(dtype=dtype) for part in tensor.split(rows)]).sum()


def require_module(module: nn.Module) -> None:
    """Raise if a module, or a part of it, keeps its weights or its code where only torch can reach them."""
    for name, part in module.named_modules():
        kind = f"{type(part).__module__}.{type(part).__name__}"
        what = f"'{name}' is" if name else "this is"
        if isinstance(part, torch.jit.ScriptModule) and any(True for _ in part.parameters()):
            raise TypeError(
                f"{what} a torch.jit module ({kind}), whose code and weights are kept in C++: pass the Python module "
                "it was made from; its load_state_dict(scripted.state_dict()) takes the weights over"
            )
        if kind.startswith(_QUANTISED):
            raise TypeError(
                f"{what} quantised ({kind}): its weights are packed integers that can be neither permuted nor "
                "averaged. Align and merge the networks before they are quantised"
            )
