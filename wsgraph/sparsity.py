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
    if not blocks or any(tensors[b.param].is_meta for b in blocks):
        return None
    total, seen = sum(block.numel for block in blocks), 0
    for block in blocks:  # one view at a time: some are copies
        seen += int(torch.count_nonzero(block.view(tensors[block.param].detach())))
        if seen > DENSE_ABOVE * total:
            return None
    views = {b: b.view(tensors[b.param].detach()) for b in blocks}
    return {b: (v != 0).any(-1).nonzero().T.flip(0).contiguous() for b, v in views.items()}
