"""Which edges a pruned network still has."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from .blocks import Block
from .spec import Spec

DENSE_ABOVE = 0.05
"""Share of non-zero weights above which dense matrix products are faster than listed edges."""

Support = Mapping[Block, Tensor]
"""Edge block → ``[2, E]``: source and target of every edge with a non-zero tap, sorted by target."""


def find_support(spec: Spec, tensors: Mapping[str, Tensor]) -> Support | None:
    """The non-zero edges of a mostly zero network; ``None`` if it is dense (or on the meta device)."""
    blocks = [b for b in spec.blocks if b.source is not None and b.runs == 1]
    views = {b: b.view(tensors[b.param].detach()) for b in blocks}
    if not blocks or any(v.is_meta for v in views.values()):
        return None
    total = sum(v.numel() for v in views.values())
    if sum(int(torch.count_nonzero(v)) for v in views.values()) > DENSE_ABOVE * total:
        return None
    return {b: (v != 0).any(-1).nonzero().T.flip(0).contiguous() for b, v in views.items()}
