# ruff: noqa: E501 - one case per line
"""What each kind of layer and operator does to the symmetry, each case checked numerically.

Every case names the free groups that must be found: fewer would be a weak trace, more would be a wrong one.
"""

import pytest
import torch
from networks import Net, free_sizes, trained
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from wsgraph import trace
from wsgraph.testing import assert_function_preserved


def chain(*layers):
    return nn.Sequential(*layers)


def fc(function, hidden=8, inputs=6, outputs=3, read=None):
    """Linear ``a``, then ``function(self, a(x))``, which usually ends in Linear ``b``."""
    parts = {"a": nn.Linear(inputs, hidden), "b": nn.Linear(read or hidden, outputs)}
    return Net(lambda self, x: function(self, torch.relu(self.a(x))), **parts)


def conv(function, hidden=8, read=None):
    parts = {"a": nn.Conv2d(3, hidden, 3, padding=1), "b": nn.Conv2d(read or hidden, 2, 1)}
    return Net(lambda self, x: function(self, torch.relu(self.a(x))), **parts)


def weights(**shapes):
    return {name: nn.Parameter(torch.randn(shape)) for name, shape in shapes.items()}


def randn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def cleared(h, neurons):
    h = h.clone()
    h[:, neurons] = 0.0
    return h


IMAGE, VECTOR, TOKENS = (2, 3, 8, 8), (3, 6), (2, 5, 6)

LAYERS = {
    "linear without bias": (lambda: chain(nn.Linear(6, 8, bias=False), nn.ReLU(), nn.Linear(8, 3)), VECTOR, {"0": 8}),
    "conv1d with stride, padding, dilation": (
        lambda: chain(nn.Conv1d(3, 6, 5, 2, 4, 2), nn.PReLU(6), nn.MaxPool1d(2), nn.Conv1d(6, 2, 1)),
        (2, 3, 16),
        {"0": 6},
    ),
    "conv2d with padding='same'": (
        lambda: chain(nn.Conv2d(3, 6, 3, padding="same", dilation=2, bias=False), nn.SiLU(), nn.Conv2d(6, 2, (1, 3))),
        IMAGE,
        {"0": 6},
    ),
    "conv3d": (
        lambda: chain(
            nn.Conv3d(2, 4, 3, 2, 1), nn.BatchNorm3d(4), nn.Tanh(), nn.AdaptiveAvgPool3d(1), nn.Conv3d(4, 2, 1)
        ),
        (2, 2, 4, 4, 4),
        {"0": 4},
    ),
    "conv without batch dimension": (
        lambda: chain(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 2, 1)),
        (3, 8, 8),
        {"0": 6},
    ),
    "depthwise conv": (
        lambda: chain(nn.Conv2d(3, 6, 1), nn.Conv2d(6, 6, 3, groups=6), nn.ReLU(), nn.Conv2d(6, 2, 1)),
        IMAGE,
        {"0": 6},
    ),
    "depthwise conv with multiplier 2": (
        lambda: chain(
            nn.Conv2d(3, 6, 1), nn.Conv2d(6, 12, 3, groups=6), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 2, 1)
        ),
        IMAGE,
        {"0": 6, "1": 12},
    ),
    "conv with one group of size one": (
        lambda: chain(nn.Conv2d(1, 4, 3, groups=1), nn.ReLU(), nn.Conv2d(4, 2, 1)),
        (2, 1, 8, 8),
        {"0": 4},
    ),
    "grouped conv": (
        lambda: chain(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 1, groups=2), nn.Conv2d(8, 2, 1)),
        IMAGE,
        {"0.runs": 2, "0": 8, "1": 8},
    ),
    "transposed conv": (
        lambda: chain(nn.ConvTranspose2d(3, 6, 3, 2), nn.ReLU(), nn.ConvTranspose2d(6, 2, 3)),
        IMAGE,
        {"0": 6},
    ),
    "reflect padding": (
        lambda: chain(*(nn.Conv2d(a, b, 3, padding=1, padding_mode="reflect") for a, b in ((3, 6), (6, 2)))),
        IMAGE,
        {"0": 6},
    ),
    "circular padding": (
        lambda: chain(*(nn.Conv2d(a, b, 3, padding=1, padding_mode="circular") for a, b in ((3, 6), (6, 2)))),
        IMAGE,
        {"0": 6},
    ),
    "batch norm": (lambda: chain(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)), VECTOR, {"0": 8}),
    "batch norm of the batch's own statistics": (
        lambda: chain(nn.Linear(6, 8), nn.BatchNorm1d(8, track_running_stats=False), nn.Linear(8, 3)),
        VECTOR,
        {"0": 8},
    ),
    "inplace activations": (
        lambda: chain(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.SiLU(inplace=True), nn.Linear(8, 3)),
        VECTOR,
        {"0": 8},
    ),
    "batch norm over tokens": (
        lambda: chain(nn.Linear(6, 8), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(8, 3)),
        TOKENS,
        {"0": 8},
    ),
    "layer norm": (lambda: chain(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)), VECTOR, {"0": 8}),
    "layer norm over several dimensions": (
        lambda: chain(nn.Conv2d(3, 6, 3), nn.LayerNorm((6, 6, 6)), nn.ReLU(), nn.Conv2d(6, 2, 1)),
        IMAGE,
        {"0": 6},
    ),
    "layer norm over columns": (
        lambda: chain(nn.Conv2d(3, 8, 1), nn.LayerNorm(8), nn.Conv2d(8, 2, 1)),
        IMAGE,
        {"0": 8},
    ),
    "rms norm": (lambda: chain(nn.Linear(6, 8), nn.RMSNorm(8), nn.Linear(8, 3)), VECTOR, {"0": 8}),
    "instance norm": (
        lambda: chain(
            nn.Conv2d(3, 6, 3), nn.InstanceNorm2d(6, affine=True, track_running_stats=True), nn.Conv2d(6, 2, 1)
        ),
        IMAGE,
        {"0": 6},
    ),
    "group norm with one group": (
        lambda: chain(nn.Conv2d(3, 6, 3), nn.GroupNorm(1, 6), nn.Conv2d(6, 2, 1)),
        IMAGE,
        {"0": 6},
    ),
    "group norm": (
        lambda: chain(nn.Conv2d(3, 6, 3), nn.GroupNorm(2, 6), nn.Conv2d(6, 2, 1)),
        IMAGE,
        {"0.runs": 2, "0": 6},
    ),
    "dropout": (lambda: chain(nn.Conv2d(3, 6, 3), nn.Dropout2d(), nn.ReLU(), nn.Conv2d(6, 2, 1)), IMAGE, {"0": 6}),
    "adaptive pooling to one and Flatten": (
        lambda: chain(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(6, 2)),
        IMAGE,
        {"0": 6},
    ),
    "adaptive pooling and Flatten": (
        lambda: chain(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d((2, 3)), nn.Flatten(), nn.Linear(36, 2)),
        IMAGE,
        {"0": 6},
    ),
    "global pooling by mean": (lambda: conv(lambda m, h: m.b(h.mean((2, 3), keepdim=True))), IMAGE, {"a": 8}),
    "upsampling": (lambda: conv(lambda m, h: m.b(F.interpolate(h, scale_factor=2, mode="bilinear"))), IMAGE, {"a": 8}),
    "lp pooling": (lambda: conv(lambda m, h: m.b(F.lp_pool2d(h, 2, 2))), IMAGE, {"a": 8}),
    "sine activation": (lambda: fc(lambda m, h: m.b(torch.sin(30 * h))), VECTOR, {"a": 8}),
    "prelu of one slope": (lambda: chain(nn.Linear(6, 8), nn.PReLU(), nn.Linear(8, 3)), (6,), {"0": 8}),
    "prelu along the second of three axes": (
        lambda: chain(nn.Linear(6, 8), nn.PReLU(5), nn.Linear(8, 3)),
        TOKENS,
        {"0": 8},
    ),
    "softmax": (lambda: fc(lambda m, h: m.b(h.softmax(-1))), VECTOR, {"a": 8}),
    "embedding tied to the output": (
        lambda: Net(
            lambda m, x: F.linear(torch.relu(m.a(m.e(x))), m.e.weight), e=nn.Embedding(9, 6), a=nn.Linear(6, 6)
        ),
        torch.randint(0, 9, (2, 4)),
        {"e": 6},
    ),
    "width one everywhere": (lambda: chain(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)), (3, 1), {}),
    "deeply nested": (
        lambda: chain(chain(chain(nn.Linear(6, 8)), nn.ReLU()), chain(chain(nn.Linear(8, 3)))),
        VECTOR,
        {"0.0.0": 8},
    ),
    "recurrent": (lambda: Net(lambda m, x: m.r(x)[0], r=nn.LSTM(6, 8, batch_first=True)), TOKENS, {}),
    "attention": (
        lambda: chain(nn.Linear(6, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 2)),
        TOKENS,
        {"0": 8, "1.self_attn.runs": 2, "1.self_attn": 8, "1.self_attn.2": 8, "1.linear1": 16},
    ),
    "weight norm": (
        lambda: chain(nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3)),
        VECTOR,
        {"0.parametrizations.weight": 8},
    ),
}

STREAMS = {
    "residual add": (lambda: Net(lambda m, x: m.c((lambda h: h + m.b(torch.relu(h)))(m.a(x))), a=nn.Linear(6, 8), b=nn.Linear(8, 8), c=nn.Linear(8, 2)), VECTOR, {"a": 8}),
    "residual around the network": (lambda: Net(lambda m, x: x + m.b(torch.relu(m.a(x))), a=nn.Linear(6, 8), b=nn.Linear(8, 6)), VECTOR, {"a": 8}),
    "the output fed back as input": (lambda: Net(lambda m, x: m.b(m.a(m.b(m.a(x)).relu())), a=nn.Linear(6, 8), b=nn.Linear(8, 6)), VECTOR, {"a": 8}),
    "multiplication": (lambda: Net(lambda m, x: m.c(m.a(x) * m.b(x).sigmoid()), a=nn.Linear(6, 8), b=nn.Linear(6, 8), c=nn.Linear(8, 2)), VECTOR, {"a": 8}),
    "squeeze and excitation": (
        lambda: Net(lambda m, x: (lambda h: m.d(h * m.c(m.b(h.mean((2, 3))).relu()).sigmoid()[:, :, None, None]))(m.a(x)), a=nn.Conv2d(3, 8, 3), b=nn.Linear(8, 4), c=nn.Linear(4, 8), d=nn.Conv2d(8, 2, 1)),
        IMAGE,
        {"a": 8, "b": 4},
    ),
    "a gate that went through Flatten": (lambda: conv(lambda m, h: m.b(h * F.adaptive_avg_pool2d(h, 1).flatten(1)[:, :, None, None])), IMAGE, {"a": 8}),
    "a residual through a view with an axis of one element": (lambda: fc(lambda m, h: m.b(h.view(3, 1, 8).view(3, 8) + h)), VECTOR, {"a": 8}),
    "two inputs": (lambda: Net(lambda m, x, y: m.b(m.a(x).relu() * m.a(y)), a=nn.Linear(6, 8), b=nn.Linear(8, 2)), (randn(3, 6), randn(3, 6)), {"a": 8}),
    "several outputs": (lambda: fc(lambda m, h: {"y": m.b(h), "n": 3, "none": None, "s": [h.sum(1)]}), VECTOR, {"a": 8}),
    "hidden units among the outputs": (lambda: fc(lambda m, h: (m.b(h), h)), VECTOR, {}),
    "option A shortcut": (
        lambda: Net(lambda m, x: (lambda h: m.c(torch.relu(m.b(h) + F.pad(h[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2)))))(torch.relu(m.a(x))), a=nn.Conv2d(3, 4, 3, padding=1), b=nn.Conv2d(4, 8, 3, 2, 1), c=nn.Conv2d(8, 2, 1)),
        IMAGE,
        {"a": 4, "b": 2, "b.2": 2},
    ),
    "concatenation": (
        lambda: Net(lambda m, x: m.c(m.n(torch.cat([m.a(x), m.b(x)], 1)).relu().flatten(1)), a=nn.Conv2d(3, 4, 1), b=nn.Conv2d(3, 5, 1), n=nn.BatchNorm2d(9), c=nn.Linear(9 * 64, 2)),
        IMAGE,
        {"a": 4, "b": 5},
    ),
    "concatenation with the input": (lambda: fc(lambda m, h: m.b(torch.cat([h, h.new_ones(3, 1)], 1)), read=9), VECTOR, {"a": 8}),
    "concatenation plus a whole": (lambda: Net(lambda m, x: m.d(torch.cat([m.a(x), m.b(x)], 1) + m.c(x)), a=nn.Linear(6, 3), b=nn.Linear(6, 5), c=nn.Linear(6, 8), d=nn.Linear(8, 2)), VECTOR, {"a": 3, "b": 5}),
    "concatenation and depthwise": (
        lambda: Net(lambda m, x: m.d(m.c(torch.cat([m.a(x), m.b(x)], 1)).relu()), a=nn.Conv2d(3, 2, 1), b=nn.Conv2d(3, 3, 1), c=nn.Conv2d(5, 10, 3, groups=5), d=nn.Conv2d(10, 2, 1)),
        IMAGE,
        {"a": 2, "b": 3, "c": 4, "c.2": 6},
    ),
    "concatenation with an empty cache": (lambda: fc(lambda m, h: m.b(torch.cat([torch.tensor([]), h.new_zeros(3, 0), torch.cat([h.new_zeros(0, 8), h])], 1))), VECTOR, {"a": 8}),
    "concatenation of a stream with itself": (lambda: fc(lambda m, h: m.b(torch.cat([h, -h], 1)), read=16), VECTOR, {"a": 8}),
    "misaligned concatenations": (lambda: Net(lambda m, x: m.e(torch.cat([m.a(x), m.b(x)], 1) + torch.cat([m.b(x), m.a(x)], 1)), a=nn.Linear(6, 3), b=nn.Linear(6, 5), e=nn.Linear(8, 2)), VECTOR, {}),
    "mixing tokens": (lambda: Net(lambda m, x: m.c((lambda h: h + m.b(h.mT).mT)(m.a(x))), a=nn.Linear(6, 8), b=nn.Linear(5, 5), c=nn.Linear(8, 2)), TOKENS, {"a": 8}),
    "a product of two groups": (lambda: Net(lambda m, x: m.c((m.a(x)[:, :, None] * m.b(x)[:, None]).flatten(1)), a=nn.Linear(6, 3), b=nn.Linear(6, 4), c=nn.Linear(12, 2)), VECTOR, {"a": 3, "b": 4}),
    "a Gram matrix": (lambda: fc(lambda m, h: m.b((h.mT @ h).flatten(1)), hidden=4, read=16), TOKENS, {"a": 4}),
    "broadcast matrix products": (lambda: Net(lambda m, x: m.b((m.a(x).relu() @ m.w).relu()), a=nn.Linear(6, 4), b=nn.Linear(5, 2), **weights(w=(3, 4, 5))), (2, 3, 5, 6), {"a": 4, "w": 5}),
    "one matrix per leading entry": (lambda: Net(lambda m, x, y: m.b(m.a(x @ y).relu()), a=nn.Linear(6, 8), b=nn.Linear(8, 2)), (randn(2, 3, 4, 5), randn(3, 5, 6)), {"a": 8}),
    "einsum": (lambda: Net(lambda m, x: torch.einsum("bh,ho->bo", torch.einsum("bi,ih->bh", x, m.w).relu(), m.v), **weights(w=(6, 8), v=(8, 2))), VECTOR, {"w": 8}),
    "x @ w.t()": (lambda: Net(lambda m, x: (x @ m.w.t() + m.c).relu() @ m.v.T, **weights(w=(8, 6), c=(8,), v=(2, 8))), VECTOR, {"w": 8}),
    "w @ x": (lambda: Net(lambda m, x: m.v @ (m.w @ x + m.c[:, None]).relu(), **weights(w=(8, 6), c=(8,), v=(2, 8))), (6, 3), {"w": 8}),
    "a vector as the last layer": (lambda: Net(lambda m, x: F.linear(m.a(x).relu(), m.w), a=nn.Linear(6, 8), **weights(w=(8,))), VECTOR, {"a": 8}),
    "low-rank weights": (lambda: Net(lambda m, x: m.b((x @ (m.u @ m.v)).relu()), b=nn.Linear(8, 2), **weights(u=(6, 3), v=(3, 8))), VECTOR, {"u": 3, "v": 8}),
    "tied encoder and decoder": (lambda: Net(lambda m, x: F.linear(m.a(x).relu(), m.a.weight.t()), a=nn.Linear(6, 8)), VECTOR, {"a": 8}),
    "norm of everything": (lambda: fc(lambda m, h: m.b(h / torch.linalg.vector_norm(h, 2))), TOKENS, {"a": 8}),
    "unit length": (lambda: fc(lambda m, h: m.b(F.normalize(h, dim=-1))), VECTOR, {"a": 8}),
    "a scalar parameter, averaged": (lambda: Net(lambda m, x: m.b(m.a(x) * m.t.mean(0)), a=nn.Linear(6, 8), b=nn.Linear(8, 2), **weights(t=())), VECTOR, {"a": 8}),
    "trailing axes of one element": (lambda: fc(lambda m, h: (h.view(3, 8, 1) * m.b.weight.T.view(8, 3, 1)[:, 0]).sum((1, 2))), VECTOR, {"a": 8}),
    "casts": (lambda: fc(lambda m, h: m.b((h > h.mean(1, keepdim=True)).to(h.dtype) * h.double().to(h.dtype))), VECTOR, {"a": 8}),
    "no_grad, checkpoint and autocast regions": (
        lambda: Net(lambda m, x: m.b(checkpoint(m.inner, x, use_reentrant=False)), inner=chain(nn.Linear(6, 8), nn.ReLU()), b=nn.Linear(8, 2)),
        VECTOR,
        {"inner.0": 8},
    ),
    "a weight among the outputs": (lambda: fc(lambda m, h: (m.b(h), m.a.weight.norm())), VECTOR, {"a": 8}),
    "a buffer per neuron": (lambda: Net(lambda m, x: m.b(m.n(m.a(x))), a=nn.Linear(6, 8), b=nn.Linear(8, 2), n=Scaled(True)), VECTOR, {"a": 8}),
}  # fmt: skip

PINNED = {
    "slice with a step": (lambda: conv(lambda m, h: m.b(h[:, ::2]), read=4), IMAGE, "sliced"),
    "select": (lambda: fc(lambda m, h: m.b(h * h[:, 0][:, None])), VECTOR, "selected by index"),
    "chosen neurons": (lambda: fc(lambda m, h: m.b(h[:, torch.tensor([3, 1])]), read=2), VECTOR, "chosen by index"),
    "assignment to one neuron": (lambda: fc(lambda m, h: m.b(h.index_fill(1, torch.tensor([0]), 0.0))), VECTOR, "chosen by index"),
    "tokens and neurons exchanged": (lambda: fc(lambda m, h: m.b(h.reshape(2, 8, 5).mT)), TOKENS, "split by a reshape"),
    "flip": (lambda: fc(lambda m, h: m.b(h.flip(-1))), VECTOR, "position"),
    "cumsum": (lambda: fc(lambda m, h: m.b(h.cumsum(-1))), VECTOR, "taken in order"),
    "numbers of sorted neurons": (lambda: fc(lambda m, h: m.b(h * h.sort(-1).indices)), VECTOR, "sorted"),
    "number of the largest": (lambda: fc(lambda m, h: m.b(h * h.max(-1, keepdim=True).indices)), VECTOR, "its elements are numbered"),
    "argmax": (lambda: fc(lambda m, h: m.b(h * h.argmax(-1, keepdim=True))), VECTOR, "its elements are numbered"),
    "frequencies of neurons": (lambda: fc(lambda m, h: m.b(torch.fft.fft(h).real)), VECTOR, "Fourier transform"),
    "argsort": (lambda: fc(lambda m, h: m.b(h * h.argsort(-1))), VECTOR, "sorted"),
    "looked up by neurons": (lambda: fc(lambda m, h: m.b(torch.tensor([0.0, 1.0])[(h > 0).long()])), VECTOR, "chosen by index"),
    "windows of neurons": (lambda: fc(lambda m, h: m.b(h.unfold(1, 2, 1).sum(-1)), read=7), VECTOR, "position"),
    "every other neuron assigned": (lambda: fc(lambda m, h: m.b(h.slice_scatter(h[:, :4] * 2, 1, 0, 8, 2))), VECTOR, "chosen by index"),
    "assignment to chosen neurons": (lambda: fc(lambda m, h: m.b(cleared(h, torch.tensor([3, 1])))), VECTOR, "chosen by index"),
    "a triangle of weights": (lambda: Net(lambda m, x: m.b(x @ m.a.weight.tril()), a=nn.Linear(6, 6), b=nn.Linear(6, 2)), VECTOR, "position"),
    "a constant per neuron": (lambda: fc(lambda m, h: m.b(h * torch.arange(8))), VECTOR, "constant tensor"),
    "a buffer outside the state dict": (lambda: Net(lambda m, x: m.b(m.n(m.a(x))), a=nn.Linear(6, 8), b=nn.Linear(8, 2), n=Scaled(False)), VECTOR, "constant tensor"),
    "a mask from outside": (lambda: Net(lambda m, x, y: m.b(m.a(x) * y), a=nn.Linear(6, 8), b=nn.Linear(8, 2)), (randn(3, 6), randn(3, 8)), "network input"),
    "conv along neurons": (lambda: Net(lambda m, x: m.c(m.a(x)[:, None]), a=nn.Linear(6, 8), c=nn.Conv1d(1, 2, 3)), VECTOR, "position"),
    "transposed conv along neurons": (lambda: Net(lambda m, x: m.c(m.a(x)[:, None]), a=nn.Linear(6, 8), c=nn.ConvTranspose1d(1, 2, 3)), VECTOR, "position"),
    "pooling along neurons": (lambda: fc(lambda m, h: m.b(F.max_pool1d(h, 2)), read=4), VECTOR, "position"),
    "resizing along neurons": (lambda: fc(lambda m, h: m.b(F.interpolate(h[:, None], size=4)[:, 0]), read=4), VECTOR, "position"),
    "reflection along neurons": (lambda: fc(lambda m, h: m.b(F.pad(h, (1, 1), mode="reflect")), read=10), VECTOR, "position"),
    "local response norm": (lambda: conv(lambda m, h: m.b(F.local_response_norm(h, 3))), IMAGE, "position"),
    "the inverse of a weight": (lambda: fc(lambda m, h: m.b(h @ torch.linalg.inv(m.a.weight)), hidden=6), VECTOR, "linalg_inv_ex"),
    "noise": (lambda: fc(lambda m, h: m.b(h + torch.randn_like(h))), VECTOR, "random numbers"),
    "dropout that never sleeps": (lambda: fc(lambda m, h: m.b(F.dropout(h, 0.5, training=True))), VECTOR, "random numbers"),
}  # fmt: skip


class Scaled(nn.Module):
    """Multiplies by a buffer, in the state dict or not."""

    def __init__(self, persistent):
        super().__init__()
        self.register_buffer("scale", torch.rand(8) + 0.5, persistent=persistent)

    def forward(self, x):
        return x * self.scale


def build(case):
    make, x = case[:2]
    if isinstance(x, tuple) and isinstance(x[0], int):
        x = randn(*x)
    return trained(make()).eval(), x


@pytest.mark.parametrize("name", [*LAYERS, *STREAMS])
def test_the_groups_found_preserve_the_function(name):
    case = {**LAYERS, **STREAMS}[name]
    model, x = build(case)
    spec = trace(model, x)
    assert free_sizes(spec) == case[2]
    assert_function_preserved(model, x, spec)


@pytest.mark.parametrize("name", PINNED)
def test_neurons_with_an_order_of_their_own_are_pinned_and_the_reason_given(name):
    model, x = build(PINNED[name])
    spec = trace(model, x)
    pinned = [g for g in spec.groups.values() if g.size == spec.shape("a.weight")[0] and g.why]
    assert not [g for g in spec.free if g.size > 1]
    assert any(PINNED[name][2] in g.why for g in pinned), str(spec)
