"""Mixtures of experts: experts are a group, the hidden neurons of each are nested in it.

The networks are of bfloat16, which ``grouped_mm`` insists on, with rows of 16 bytes; they are checked in float64.
"""

import pytest
import torch
from networks import Net
from torch import nn
from torch.nn import functional as F

from wsgraph import trace
from wsgraph.testing import assert_function_preserved

TOKENS, EXPERTS, HIDDEN, WIDTH, CHOSEN = 5, 4, 16, 8, 2
FREE = {"i": WIDTH, "r": EXPERTS, "up": (EXPERTS * HIDDEN, "r")}
ALIKE = {"i": WIDTH, "r": EXPERTS, "up": HIDDEN}


def mixture(function):
    """Linear ``i``, then ``function(self, h, weights, experts)`` on top of it, Linear ``o``; router ``r``."""

    def forward(m, x):
        h = m.i(x)
        weights, experts = m.r(h).softmax(-1).topk(CHOSEN, -1)
        return m.o(h + function(m, h, weights, experts))

    parts = {"i": nn.Linear(3, WIDTH), "r": nn.Linear(WIDTH, EXPERTS), "o": nn.Linear(WIDTH, 2)}
    up, down = torch.randn(EXPERTS, WIDTH, HIDDEN), torch.randn(EXPERTS, HIDDEN, WIDTH)
    return Net(forward, up=nn.Parameter(up), down=nn.Parameter(down), **parts)


def order_of(experts):
    """Chosen experts in order, the places they stood at, and where the stretch of each expert ends."""
    ids, order = experts.flatten().sort()
    counts = torch.histc(ids.float(), EXPERTS, 0, EXPERTS - 1)
    return ids, order, counts.cumsum(0).to(torch.int32)


def grouped(m, h, weights, experts):
    """Tokens sorted by expert, products stretch by stretch, and back by the inverse of the sorting."""
    _, order, ends = order_of(experts)
    y = F.grouped_mm(F.grouped_mm(h[order // CHOSEN], m.up, offs=ends).relu(), m.down, offs=ends)
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(TOKENS * CHOSEN)
    return (y * weights.flatten()[order, None])[inverse].view(TOKENS, CHOSEN, WIDTH).sum(1)


def added_up(m, h, weights, experts):
    """The same, brought back by adding up; a bias for every expert."""
    ids, order, ends = order_of(experts)
    y = (F.grouped_mm(h[order // CHOSEN], m.up, offs=ends) + m.down.mean(2).index_select(0, ids)).relu()
    y = F.grouped_mm(y, m.down, offs=ends) * weights.flatten()[order, None]
    return torch.zeros_like(h).index_add(0, order // CHOSEN, y)


def argsorted(m, h, weights, experts):
    """The inverse by sorting the order."""
    _, order, ends = order_of(experts)
    y = F.grouped_mm(F.grouped_mm(h[order // CHOSEN], m.up, offs=ends).relu(), m.down, offs=ends)
    return (y[order.argsort()].view(TOKENS, CHOSEN, WIDTH) * weights[..., None]).sum(1)


def in_groups(m, h, weights, experts):
    """First the better of two groups of experts, then experts in it."""
    scores = m.r(h).sigmoid()
    best = scores.view(TOKENS, 2, 2).sum(-1).topk(1, -1).indices
    mask = torch.zeros(TOKENS, 2, dtype=h.dtype).scatter(1, best, 1.0)[..., None].expand(-1, -1, 2).flatten(1)
    experts = scores.masked_fill(mask == 0, -1.0).topk(CHOSEN, -1).indices
    return grouped(m, h, scores.gather(1, experts), experts)


def masked(m, h, weights, experts):
    """All experts, weighted by a mask of those that were chosen."""
    gates = (F.one_hot(experts, EXPERTS).to(h.dtype) * weights[..., None]).sum(1)
    return torch.einsum("te,teh,ehd->td", gates, torch.einsum("td,edh->teh", h, m.up).relu(), m.down)


def scattered(m, h, weights, experts):
    gates = torch.zeros(TOKENS, EXPERTS, dtype=h.dtype).scatter(1, experts, weights)
    return torch.einsum("te,teh,ehd->td", gates, torch.einsum("td,edh->teh", h, m.up).relu(), m.down)


def looked_up(m, h, weights, experts):
    """The matrices of the chosen experts, token by token."""
    y = torch.einsum("td,tkdh->tkh", h, m.up[experts]).relu()
    return (torch.einsum("tkh,tkhd->tkd", y, m.down[experts]) * weights[..., None]).sum(1)


def numbered(m, h, weights, experts):
    """Later experts count for more."""
    return grouped(m, h, weights * experts, experts)


def at_their_places(m, h, weights, experts):
    """Tokens that come first in the sorted order count for more."""
    _, order, ends = order_of(experts)
    y = F.grouped_mm(F.grouped_mm(h[order // CHOSEN], m.up, offs=ends).relu(), m.down, offs=ends)
    return torch.zeros_like(h).index_add(0, order // CHOSEN, y * torch.arange(10, 0, -1, dtype=h.dtype)[:, None])


def numbered_in_groups(m, h, weights, experts):
    return in_groups(m, h, weights, experts) * m.r(h).argmax(-1, keepdim=True)


PINNED = {"i": WIDTH, "up": (EXPERTS * HIDDEN, "r")}
CASES = {
    "products of sorted tokens": (grouped, FREE),
    "added up, with biases": (added_up, FREE),
    "back by argsort": (argsorted, FREE),
    "experts in groups": (in_groups, {"i": WIDTH, "r.runs": 2, "r": (4, "r.runs"), "up": (EXPERTS * HIDDEN, "r")}),
    "a mask of one-hot vectors": (masked, FREE),
    "a mask by scatter": (scattered, FREE),
    "matrices looked up": (looked_up, ALIKE),
    "numbers as numbers pin the experts": (numbered, PINNED),
    "experts in groups, pinned": (numbered_in_groups, {"i": WIDTH, "up": (2 * HIDDEN, "up.runs")}),
    "places in the sorted order pin the experts": (at_their_places, PINNED),
}


@pytest.mark.parametrize("name", CASES)
def test_experts_and_their_neurons_move(name):
    function, expected = CASES[name]
    torch.manual_seed(0)
    model, x = mixture(function).bfloat16().eval(), torch.randn(TOKENS, 3).bfloat16()
    spec = trace(model, x)
    assert {g.name: (g.size, g.parent) if g.parent else g.size for g in spec.free} == expected
    assert_function_preserved(model, x, spec)
