# ruff: noqa: E501 - one case per line
"""Groups inside groups: attention, grouped layers, gates; each case checked numerically.

Every case names the free groups that must be found, ``(size, parent)`` for nested ones: fewer would be a weak trace,
more would be a wrong one.
"""

import pytest
import torch
from networks import Net
from torch import nn
from torch.nn import functional as F

from wsgraph import trace
from wsgraph.axes import Atom, fixed, free, leaves, resolve, tie
from wsgraph.nesting import join, settle, tell_apart
from wsgraph.regroup import cut, into_runs, reshape
from wsgraph.testing import assert_function_preserved

IMAGE, TOKENS = (2, 3, 8, 8), (2, 5, 6)


def net(function, **parts):
    """Linear ``i``, then ``function(self, i(x))`` of the same width, a LayerNorm, Linear ``o``."""
    return Net(
        lambda m, x: m.o(m.n(function(m, m.i(x)))), i=nn.Linear(6, 8), o=nn.Linear(8, 2), n=nn.LayerNorm(8), **parts
    )


def chain(*layers):
    return nn.Sequential(*layers)


def attention(function, keys=8):
    """``function(self, q, k, v)`` of projections ``[batch, tokens, width]`` returns what the last projection reads."""
    parts = {"q": nn.Linear(8, 8), "k": nn.Linear(8, keys), "v": nn.Linear(8, keys), "p": nn.Linear(8, 8)}
    return net(lambda m, h: h + m.p(function(m, m.q(h), m.k(h), m.v(h))), **parts)


def split(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merged(x):
    return x.transpose(1, 2).flatten(2)


def by_hand(m, q, k, v):
    q, k, v = (split(x, 2) for x in (q, k, v))
    return merged((q @ k.mT / 2).softmax(-1) @ v)


def shared_keys(m, q, k, v):
    """Four query heads, two key heads."""
    return merged(F.scaled_dot_product_attention(split(q, 4), split(k, 2), split(v, 2), enable_gqa=True))


def repeated_keys(m, q, k, v):
    k, v = (split(x, 2)[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2) for x in (k, v))
    return merged(F.scaled_dot_product_attention(split(q, 4), k, v))


def rotary(m, q, k, v):
    angle = torch.arange(5)[:, None] * torch.tensor([1.0, 0.1])
    cos, sin = angle.cos().to(q.dtype), angle.sin().to(q.dtype)

    def turned(x):
        first, second = split(x, 2).chunk(2, -1)
        return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)

    return merged(F.scaled_dot_product_attention(turned(q), turned(k), split(v, 2)))


def normed(m, h):
    q, k, v = (split(project(h), 2) for project in (m.q, m.k, m.v))
    return h + m.p(merged(F.scaled_dot_product_attention(m.norm(q), m.norm(k), v)))


def fused(m, h):
    q, k, v = m.qkv(h).reshape(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
    return h + m.p(merged(F.scaled_dot_product_attention(q, k, v)))


def fused_by_head(m, h):
    q, k, v = m.qkv(h).view(2, 5, 2, 12).transpose(1, 2).chunk(3, -1)
    return h + m.p(merged(F.scaled_dot_product_attention(q, k, v)))


def with_biases(m, h):
    """A bias put together of three parts, of which the keys' is zero."""
    bias = torch.cat([m.qb, torch.zeros_like(m.vb), m.vb])
    q, k, v = F.linear(h, m.qkv.weight, bias).reshape(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
    return h + m.p(merged(F.scaled_dot_product_attention(q, k, v)))


def triples_by_head(m, h):
    qkv = m.qkv(h).view(2, 5, 2, 3, 4).transpose(1, 2)
    return h + m.p(merged(F.scaled_dot_product_attention(*(qkv[..., k, :] for k in range(3)))))


def from_the_largest(m, q, k, v):
    """Four query heads, two key heads; scores relative to the largest."""
    q, k, v = split(q, 4), *(split(x, 2).repeat_interleave(2, 1) for x in (k, v))
    w = q @ k.mT
    return merged((w - w.max(-1, keepdim=True).values).softmax(-1) @ v)


def pinned_heads(m, q, k, v):
    """The same, with an operator in between that is not understood."""
    q, k, v = split(q, 4), *(split(x, 2).repeat_interleave(2, 1) for x in (k, v))
    return merged(torch.linalg.matrix_exp(q @ k.mT / 9) @ v)


def unbound(m, h):
    a, b = m.w
    return torch.tanh(h @ a) @ b


def turned(m, q, k, v):
    """Values come from the head at the other end."""
    q, k, v = (split(x, 2) for x in (q, k, v))
    return merged(F.scaled_dot_product_attention(q, k, v.flip(1)))


def some_heads(m, q, k, v):
    """The first two of four heads are halved."""
    q, k, v = (split(x, 4) for x in (q, k, v))
    return merged(F.scaled_dot_product_attention(q, k, torch.cat([v[:, :2] / 2, v[:, 2:]], 1)))


def heads_and_gates(m, x):
    """A depthwise convolution of two heads of four channels, scaled alike, and of gates."""
    channels, gates = m.d(m.a(x)).split((8, 4), 1)
    return m.o((channels.unflatten(1, (2, 4)) * m.w).flatten(1, 2) * gates.sum(1, keepdim=True))


def shuffle(x):
    return x.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)


def self_attention(m, h):
    return h + m.a(h, h, h, need_weights=False)[0]


def heads_of(name, dims=("", ".2")):
    return {f"{name}.runs": 2, **{f"{name}{d}": (8, f"{name}.runs") for d in dims}}


QKV = {"qkv": lambda: nn.Linear(8, 24), "p": lambda: nn.Linear(8, 8)}
CASES = {
    "attention by hand": (lambda: attention(by_hand), TOKENS, {"i": 8, "q.runs": 2, "q": (8, "q.runs"), "v": (8, "q.runs")}),
    "key heads that serve several query heads": (lambda: attention(shared_keys, 4), TOKENS, {"i": 8, "q.runs": 2, "q": (4, "q.runs"), "q.2": (4, "q.runs"), "v": (4, "q.runs")}),
    "the same by expand": (lambda: attention(repeated_keys, 4), TOKENS, {"i": 8, "q.runs": 2, "q": (4, "q.runs"), "q.2": (4, "q.runs"), "v": (4, "q.runs")}),
    "rotary embeddings pin the dims of queries and keys": (lambda: attention(rotary), TOKENS, {"i": 8, "q": 2, "v": (8, "q")}),
    "heads turned around are pinned, and values move alike in all": (lambda: attention(turned), TOKENS, {"i": 8, "q": (8, "q.runs"), "v": 4}),
    "heads in two parts": (lambda: attention(some_heads), TOKENS, {"i": 8, "q": 2, "q.2": 2, "q.3": 2, "v": 2}),
    "one norm for all heads makes their dims move alike": (lambda: net(normed, norm=nn.RMSNorm(4), **{k: nn.Linear(8, 8) for k in "qkvp"}), TOKENS, {"i": 8, "q": 2, "q.2": 4, "v": (8, "q")}),
    "queries, keys and values fused": (lambda: net(fused, **{k: make() for k, make in QKV.items()}), TOKENS, {"i": 8, **heads_of("qkv")}),
    "fused head by head": (lambda: net(fused_by_head, **{k: make() for k, make in QKV.items()}), TOKENS, {"i": 8, "qkv.runs": 2, "qkv": (8, "qkv.runs")}),
    "fused head by head, as triples": (lambda: net(triples_by_head, **{k: make() for k, make in QKV.items()}), TOKENS, {"i": 8, "qkv.runs": 2, "qkv": (8, "qkv.runs")}),
    "fused, with a bias put together": (
        lambda: net(with_biases, qb=nn.Parameter(torch.randn(8)), vb=nn.Parameter(torch.randn(8)), **{k: make() for k, make in QKV.items()}),
        TOKENS,
        {"i": 8, "vb.runs": 2, "vb": (8, "vb.runs"), "qb": (8, "vb.runs")},
    ),
    "key heads that serve several, scores relative to the largest": (lambda: attention(from_the_largest, 4), TOKENS, {"i": 8, "q.runs": 2, "q": (4, "q.runs"), "q.2": (4, "q.runs"), "v": (4, "q.runs")}),
    "key heads that serve several, pinned": (lambda: attention(pinned_heads, 4), TOKENS, {"i": 8, "q": (4, "q.runs"), "v": (4, "v.runs")}),
    "a parameter unbound": (lambda: net(unbound, w=nn.Parameter(torch.randn(2, 8, 8))), TOKENS, {"i": 8}),
    "groups of a norm inside heads": (
        lambda: net(lambda m, h: torch.einsum("nthd,hde->nthe", m.g(h.mT).mT.unflatten(-1, (2, 4)), m.w).flatten(2), g=nn.GroupNorm(4, 8), w=nn.Parameter(torch.randn(2, 4, 4))),
        TOKENS,
        {"i.runs": 2, "i": (4, "i.runs"), "i.2": 2, "w": (8, "i.runs")},
    ),
    "runs of one element": (lambda: chain(nn.Conv2d(3, 6, 1), nn.Conv2d(6, 6, 3, groups=6), nn.ReLU(), nn.Flatten(), nn.Linear(216, 2)), IMAGE, {"0": 6}),
    "runs of one element in a concatenation": (
        lambda: Net(heads_and_gates, a=nn.Conv2d(3, 12, 1), d=nn.Conv2d(12, 12, 3, groups=12), w=nn.Parameter(torch.randn(4, 1, 1)), o=nn.Conv2d(8, 2, 1)),
        IMAGE,
        {"a": 2, "a.2": 4, "a.3": 4},
    ),
    "MultiheadAttention": (lambda: net(self_attention, a=nn.MultiheadAttention(8, 2, batch_first=True)), TOKENS, {"i": 8, **heads_of("a")}),
    "cross-attention": (lambda: net(lambda m, h: h + m.a(h, h.relu(), h.relu())[0], a=nn.MultiheadAttention(8, 2, batch_first=True)), TOKENS, {"i": 8, **heads_of("a")}),
    "TransformerDecoderLayer": (
        lambda: net(lambda m, h: m.d(h, h[:, :3]), d=nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)),
        TOKENS,
        {"i": 8, **heads_of("d.self_attn"), **heads_of("d.multihead_attn"), "d.linear1": 16},
    ),
    "grouped convolution": (lambda: chain(nn.Conv2d(3, 8, 1), nn.ReLU(), nn.Conv2d(8, 12, 3, groups=4), nn.BatchNorm2d(12), nn.Conv2d(12, 2, 1)), IMAGE, {"0.runs": 4, "0": (8, "0.runs"), "2": (12, "0.runs")}),
    "grouped convolution of the input": (lambda: chain(nn.Conv2d(4, 8, 1, groups=2), nn.ReLU(), nn.Conv2d(8, 2, 1)), (2, 4, 5, 5), {"0": (8, "0.runs")}),
    "grouped transposed convolution": (lambda: chain(nn.Conv2d(3, 8, 1), nn.ConvTranspose2d(8, 12, 2, 2, groups=4), nn.ReLU(), nn.Conv2d(12, 2, 1)), IMAGE, {"0.runs": 4, "0": (8, "0.runs"), "1": (12, "0.runs")}),
    "GroupNorm on a stream": (lambda: Net(lambda m, x: m.o((lambda h: h + m.b(m.n(h).relu()))(m.a(x))), a=nn.Conv2d(3, 8, 1), b=nn.Conv2d(8, 8, 1), n=nn.GroupNorm(4, 8), o=nn.Conv2d(8, 2, 1)), IMAGE, {"a.runs": 4, "a": (8, "a.runs")}),
    "GroupNorm after a concatenation": (
        lambda: Net(lambda m, x: m.o(m.n(torch.cat([m.a(x), m.b(x)], 1)).relu()), a=nn.Conv2d(3, 4, 1), b=nn.Conv2d(3, 6, 1), n=nn.GroupNorm(5, 10), o=nn.Conv2d(10, 2, 1)),
        IMAGE,
        {"a.runs": 2, "a": (4, "a.runs"), "b.runs": 3, "b": (6, "b.runs")},
    ),
    "channel shuffle": (lambda: Net(lambda m, x: m.b(shuffle(m.a(x))), a=nn.Conv2d(3, 8, 1), b=nn.Conv2d(8, 2, 1)), IMAGE, {"a.runs": 2, "a": (8, "a.runs")}),
    "PixelShuffle": (lambda: chain(nn.Conv2d(3, 12, 1), nn.PixelShuffle(2), nn.Conv2d(3, 2, 1)), IMAGE, {"0": 3}),
    "gated linear unit": (lambda: chain(nn.Linear(6, 16), nn.GLU(), nn.Linear(8, 2)), TOKENS, {"0": 8}),
    "LSTM": (lambda: Net(lambda m, x: m.o(m.r(x)[0]), r=nn.LSTM(6, 8, 2, batch_first=True), o=nn.Linear(8, 2)), TOKENS, {"r": 8, "r.2": 8}),
    "LSTM in both directions": (lambda: Net(lambda m, x: m.o(m.r(x)[0]), r=nn.LSTM(6, 8, batch_first=True, bidirectional=True), o=nn.Linear(16, 2)), TOKENS, {"r": 8, "r.2": 8}),
    "GRU, last state": (lambda: Net(lambda m, x: m.o(m.r(x)[1][-1]), r=nn.GRU(6, 8, 2, batch_first=True), o=nn.Linear(8, 2)), TOKENS, {"r": 8, "r.2": 8}),
    "adapter of rank 3": (lambda: Net(lambda m, x: m.o((m.i(x) + m.b(m.a(x))).relu()), i=nn.Linear(6, 8), a=nn.Linear(6, 3, bias=False), b=nn.Linear(3, 8, bias=False), o=nn.Linear(8, 2)), TOKENS, {"i": 8, "a": 3}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_nested_groups_are_found_and_preserve_the_function(name):
    make, shape, expected = CASES[name]
    model, x = make().eval(), torch.randn(shape)
    spec = trace(model, x)
    assert {g.name: (g.size, g.parent) if g.parent else g.size for g in spec.free} == expected
    assert all(g.size > 1 for g in spec.groups.values())
    assert_function_preserved(model, x, spec)


# ------------------------------------------------------------------------------------------------------------ the rules


def nested(heads=2, dims=4):
    return reshape([free(heads * dims)], [heads, dims])


def inside(dim):
    return [list(atom.inside) for atom in leaves(dim)]


def test_dims_of_tied_heads_stay_inside_them():
    (h, d), (k, e) = nested(), nested()
    tie(d, e)
    tie(h, k)
    settle([[h, d], [k, e]])
    assert inside(d) == [leaves(h)]


def test_dims_of_unrelated_heads_are_the_same_in_all():
    (h, d), (k, e) = nested(), nested()
    tie(d, e)
    settle([[h, d], [k, e]])
    assert inside(d) == [[]]


def test_a_tensor_without_the_heads_has_the_same_dims_in_all():
    _, d = nested()
    settle([[d]])
    assert inside(d) == [[]]


def test_heads_against_heads_leave_dims_the_same_in_all():
    """x[h, 1, d] + x[1, h, d]: which head is meant?"""
    h, d = nested()
    settle([[h, h, d]])
    assert inside(d) == [[]]


def test_runs_that_are_told_apart_are_a_concatenation():
    whole = free(6)
    three, inner = reshape([whole], [3, 2])
    first, last = (tell_apart([inner], leaves(three)[0], k, "selected")[0] for k in (0, 2))
    assert [size for (atom,) in resolve(whole) for size in [atom.size]] == [2, 2, 2]
    assert resolve(whole)[0] == resolve(first)[0]
    assert resolve(whole)[2] == resolve(last)[0]
    assert resolve(first) != resolve(last)


def test_runs_told_apart_and_then_used_as_one_are_the_same():
    whole = free(6)
    three, inner = reshape([whole], [3, 2])
    first, last = (tell_apart([inner], leaves(three)[0], k, "selected")[0] for k in (0, 2))
    settle([[inner]])  # a tensor that has lost the runs
    assert resolve(first) == resolve(last) == resolve(inner)


def test_joined_dimensions_come_apart_again():
    runs, a, b = Atom(2, pinned="stacked"), free(4), free(4)
    both = join(runs, [a, b])
    assert resolve(tell_apart([both], runs, 1, "selected")[0]) == resolve(b)
    assert resolve(a) != resolve(b)


def test_cut_pieces_are_parts_of_the_whole():
    whole = free(10)
    pieces = cut(whole, [3, 5, 2])
    assert [part[0].size for part in resolve(whole)] == [3, 5, 2]
    assert tuple(part for piece in pieces for part in resolve(piece)) == resolve(whole)


def test_pieces_of_a_pinned_axis_are_pinned():
    assert [leaves(piece)[0].pinned for piece in cut(fixed(5, "position"), [2, 3])] == ["position"] * 2


def test_runs_over_the_end_of_a_part_are_pinned():
    dim = free(3) + free(5)
    assert into_runs(dim, 4, "normed together") == []
    assert {atom.pinned for atom in leaves(dim)} == {"normed together"}
