"""Sums over runs of equal index: ``torch_scatter`` where it is installed, torch's own otherwise."""

from __future__ import annotations

import torch
from torch import Tensor

try:
    from torch_scatter import segment_csr
except ImportError:
    segment_csr = None


def segment_sum(values: Tensor, index: Tensor, size: int) -> Tensor:
    """out[k] = Σ over e with index[e] = k of values[e], for a sorted ``index``.

    ``segment_csr`` reads every value once and writes every sum once; ``index_add`` is the same sum.

    Shapes:
        - **values:** ``[E, M]``; **index:** ``[E]``; **output:** ``[size, M]``
    """
    if segment_csr is None or values.is_meta:
        return values.new_zeros(size, *values.shape[1:]).index_add(0, index, values)
    ends = torch.searchsorted(index.contiguous(), torch.arange(size + 1, device=index.device))
    return segment_csr(values.contiguous(), ends, reduce="sum")
