# ruff: noqa: E501 - one case per line
"""Networks that read and write by index, rank, or take in order: each case names the free groups that must be found."""

import pytest
import torch
from networks import Net, free_sizes
from torch import nn
from torch.nn import functional as F

from wsgraph import trace
from wsgraph.testing import assert_function_preserved

NODES = torch.tensor([0, 1, 0])


def fc(function, **parts):
    """Linear ``a``, then ``function(self, relu(a(x)))``, read by Linear ``b``."""
    return Net(lambda m, x: m.b(function(m, torch.relu(m.a(x)))), a=nn.Linear(6, 8), b=nn.Linear(8, 3), **parts)


def conv(function, read=8, **parts):
    """Conv ``a``, then ``function(self, relu(a(x)))``, read by Linear ``b``."""
    return Net(lambda m, x: m.b(function(m, torch.relu(m.a(x)))), a=nn.Conv2d(3, 8, 3), b=nn.Linear(read, 3), **parts)


def halves_exchanged(m, h):
    out = torch.zeros_like(h)
    out[:, :4], out[:, 4:] = h[:, 4:], h[:, :4] * 2
    return out


def shifted(m, h):
    out = h.new_zeros(4, 8)
    out[1:] = h
    return out


def interleaved(m, h):
    out = h.new_zeros(6, 8)
    out[::2], out[1::2] = h, m.c(h)
    return out


def first_row_from_last(m, h):
    out = h.clone()
    out[0] = out[2]
    return out


def chosen_rows(m, h):
    out = h.new_zeros(5, 8)
    out[torch.tensor([3, 1, 0])] = h
    return out


def clipped(m, h):
    out = h.clone()
    out[out > 1] = 1.0
    return out


def some_rows_cleared(m, h):
    out = h.clone()
    out[h.sum(1) > 1] = 0.0
    return out


def pooled_by(reduce):
    return lambda m, h: h.new_zeros(2, 8).scatter_reduce(0, NODES[:, None].expand(-1, 8), h, reduce)


def messages(m, h):
    """Node features to edges and back."""
    source, target = torch.tensor([0, 1, 2, 2]), torch.tensor([1, 2, 0, 1])
    sent = m.c(h).gather(0, source[:, None].expand(-1, 8))
    return h + torch.zeros_like(h).scatter_add(0, target[:, None].expand(-1, 8), sent)


def standardised(m, h):
    w = m.c.weight
    w = F.batch_norm(w.reshape(1, 8, -1), None, None, training=True).reshape_as(w)
    return F.conv2d(h, w).relu().mean((2, 3))


def state_space(m, h):
    """Every neuron has a few states, which its input drives and which fade; steps come through a narrow layer."""
    step, drive, read = m.x(h).split((2, 4, 4), -1)
    step, state, out = F.softplus(m.t(step)), h.new_zeros(8, 4), []
    for k in range(3):
        state = torch.exp(-step[k, :, None] * m.decay.exp()) * state + (step[k] * h[k])[:, None] * drive[k]
        out.append(state @ read[k] + m.skip * h[k])
    return torch.stack(out)


def put_under_a_mask(m, h):
    return h.masked_scatter((h.sum(1, keepdim=True) > h.sum(1).mean()), m.c(h))


def linear():
    return nn.Linear(8, 8)


ROWS, IMAGE, WORDS = (3, 6), (2, 3, 6, 6), torch.tensor([[1, 2, 3], [4, 5, 0]])
CASES = {
    "slices assigned": (lambda: fc(halves_exchanged), ROWS, {"a": 4, "a.2": 4}),
    "rows assigned": (lambda: fc(shifted), ROWS, {"a": 8}),
    "every other row assigned": (lambda: fc(interleaved, c=linear()), ROWS, {"a": 8}),
    "one row assigned": (lambda: fc(first_row_from_last), ROWS, {"a": 8}),
    "chosen rows assigned": (lambda: fc(chosen_rows), ROWS, {"a": 8}),
    "elements under a mask assigned": (lambda: fc(clipped), ROWS, {"a": 8}),
    "rows under a mask assigned": (lambda: fc(some_rows_cleared), ROWS, {"a": 8}),
    "message passing": (lambda: fc(messages, c=linear()), ROWS, {"a": 8}),
    "sums over nodes": (lambda: fc(lambda m, h: h.new_zeros(2, 8).index_add(0, NODES, h)), ROWS, {"a": 8}),
    "maxima over nodes": (lambda: fc(pooled_by("amax")), ROWS, {"a": 8}),
    "running sums over rows": (lambda: fc(lambda m, h: h.cumsum(0)), ROWS, {"a": 8}),
    "running maxima over rows": (lambda: fc(lambda m, h: h.cummax(0).values), ROWS, {"a": 8}),
    "the largest neuron": (lambda: fc(lambda m, h: h - h.max(1, keepdim=True).values), ROWS, {"a": 8}),
    "the largest row": (lambda: fc(lambda m, h: h.max(0).values), ROWS, {"a": 8}),
    "sorted neurons": (lambda: fc(lambda m, h: h.sort(1).values), ROWS, {"a": 8}),
    "sorted rows": (lambda: fc(lambda m, h: h.sort(0).values), ROWS, {"a": 8}),
    "the largest few": (lambda: fc(lambda m, h: h * h.topk(2, 1).values.sum(1, keepdim=True)), ROWS, {"a": 8}),
    "windows": (lambda: conv(lambda m, h: h.unfold(2, 2, 2).unfold(3, 2, 2).mean((2, 3, 4, 5))), IMAGE, {"a": 8}),
    "places of a grid": (lambda: conv(lambda m, h: F.grid_sample(h, torch.zeros(2, 2, 3, 2).to(h), align_corners=False).mean((2, 3))), IMAGE, {"a": 8}),
    "patches": (lambda: conv(lambda m, h: F.unfold(h, 3).mT, 72), IMAGE, {"a": 8}),
    "patches put together": (lambda: conv(lambda m, h: F.fold(F.unfold(h, 2, stride=2), (4, 4), 2, stride=2).mean((2, 3))), IMAGE, {"a": 8}),
    "weight standardisation": (lambda: conv(standardised, c=nn.Conv2d(8, 8, 3)), IMAGE, {"a": 8, "c": 8}),
    "Bilinear": (
        lambda: Net(lambda m, x: m.b(m.d(m.a(x).relu(), m.c(x).tanh()).relu()), a=nn.Linear(6, 8), c=nn.Linear(6, 5), d=nn.Bilinear(8, 5, 7), b=nn.Linear(7, 3)),
        ROWS,
        {"a": 8, "c": 5, "d": 7},
    ),
    "rows put under a mask": (lambda: fc(put_under_a_mask, c=linear()), ROWS, {"a": 8}),
    "frequencies of rows": (lambda: fc(lambda m, h: torch.fft.fft(h, dim=0).real), ROWS, {"a": 8}),
    "state space": (
        lambda: fc(state_space, x=nn.Linear(8, 10), t=nn.Linear(2, 8), decay=nn.Parameter(torch.randn(8, 4)), skip=nn.Parameter(torch.randn(8))),
        ROWS,
        {"a": 8, "x": 2, "x.2": 4},
    ),
    "EmbeddingBag": (lambda: nn.Sequential(nn.EmbeddingBag(7, 8), nn.Linear(8, 3)), WORDS, {"0": 8}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_indexed_moves_freely(name):
    make, x, expected = CASES[name]
    model, x = make().eval(), x if isinstance(x, torch.Tensor) else torch.randn(x)
    spec = trace(model, x)
    assert free_sizes(spec) == expected
    assert_function_preserved(model, x, spec)
