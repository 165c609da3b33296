"""Values captured where weights read them, against the same computed by hand."""

import pytest
import torch
from networks import Net, mlp, trained
from torch import nn
from torch.nn import functional as F

from align.methods.activations import captured
from wsgraph import trace


def values(model, x):
    """(group, reading parameter) → values."""
    spec = trace(model, x)
    names, out = list(spec.params), {}
    with torch.no_grad(), captured(model, spec, lambda g, r, v: out.setdefault((g, names[r]), []).append(v)):
        model(x)
    return {k: torch.cat(v) for k, v in out.items()}


def channels_last(h):
    return h.movedim(1, -1).flatten(0, -2)


def check(found, expected):
    assert set(found) == set(expected)
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value.detach())


def test_mlp():
    model, x = mlp(4, 6, 5, 3), torch.randn(7, 4)
    h = torch.relu(model[0](x))
    check(values(model, x), {("0", "2.weight"): h, ("2", "4.weight"): torch.relu(model[2](h))})


def test_conv_pool_flatten_and_sequences():
    model = nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1), nn.BatchNorm2d(5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(5, 4, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip
    trained(model).eval()
    x = torch.randn(6, 2, 4, 4)
    h, k = model[:4](x), model[:6](x)
    check(values(model, x), {("0", "4.weight"): channels_last(h), ("4", "7.weight"): channels_last(k)})


def test_residual_stream_is_seen_by_each_reader():
    model = Net(
        lambda m, x: m.head(torch.relu(m.stem(x) + m.out(torch.relu(m.inner(m.stem(x)))))),
        stem=nn.Linear(3, 5), inner=nn.Linear(5, 7), out=nn.Linear(7, 5), head=nn.Linear(5, 2),
    )  # fmt: skip
    x = torch.randn(9, 3)
    s = model.stem(x)
    inner = torch.relu(model.inner(s))
    stream = torch.relu(s + model.out(inner))
    check(
        values(model, x),
        {("stem", "inner.weight"): s, ("inner", "out.weight"): inner, ("stem", "head.weight"): stream},
    )


def test_cat_gives_each_part_to_its_group():
    model = Net(
        lambda m, x: m.head(torch.cat([torch.relu(m.a(x)), torch.tanh(m.b(x))], 1)),
        a=nn.Conv2d(2, 3, 1), b=nn.Conv2d(2, 4, 1), head=nn.Conv2d(7, 2, 1),
    )  # fmt: skip
    x = torch.randn(5, 2, 3, 3)
    check(
        values(model, x),
        {
            ("a", "head.weight"): channels_last(torch.relu(model.a(x))),
            ("b", "head.weight"): channels_last(torch.tanh(model.b(x))),
        },
    )


@pytest.mark.parametrize(
    "read",
    [
        lambda m, h: F.linear(input=h, weight=m.w),
        lambda m, h: F.linear(h, weight=m.w),
        lambda m, h: h @ m.w.T,
        lambda m, h: torch.matmul(h, m.w.t()),
    ],
    ids=["keywords", "keyword", "operator", "function"],
)
def test_weights_are_recognised_however_they_are_multiplied(read):
    model = Net(lambda m, x: read(m, torch.relu(m.a(x))), a=nn.Linear(3, 6), w=nn.Parameter(torch.randn(2, 6)))
    x = torch.randn(8, 3)
    check(values(model, x), {("a", "w"): torch.relu(model.a(x))})


def test_a_layer_used_twice_is_seen_twice():
    model = Net(
        lambda m, x: m.head(torch.relu(m.mid(torch.relu(m.mid(torch.relu(m.a(x))))))),
        a=nn.Linear(3, 5), mid=nn.Linear(5, 5), head=nn.Linear(5, 2),
    )  # fmt: skip
    x = torch.randn(4, 3)
    h = torch.relu(model.a(x))
    k = torch.relu(model.mid(h))
    check(
        values(model, x),
        {("a", "mid.weight"): torch.cat([h, k]), ("a", "head.weight"): torch.relu(model.mid(k))},
    )


def test_parts_of_a_weight_are_left_alone():
    model = Net(
        lambda m, x: F.linear(torch.relu(m.a(x))[:, :2], m.w[:, :2]),
        a=nn.Linear(3, 6),
        w=nn.Parameter(torch.randn(2, 6)),
    )
    x = torch.randn(8, 3)
    check(values(model, x), {("a.2", "a.weight"): model.a(x)[:, 2:]})  # nothing reads these: seen where written


def test_queries_and_keys_are_seen_where_they_are_written():
    def attend(m, x):
        q, k = m.qk(x).chunk(2, -1)
        return (q @ k.mT).softmax(-1) @ m.value(x)

    model, x = Net(attend, qk=nn.Linear(3, 8), value=nn.Linear(3, 2)), torch.randn(2, 5, 3)
    q, k = model.qk(x).flatten(0, 1).chunk(2, -1)
    check(values(model, x), {("qk", "qk.weight"): torch.cat([q, k])})


def test_inputs_of_a_convolution_with_groups():
    model = nn.Sequential(nn.Conv2d(2, 8, 1), nn.ReLU(), nn.Conv2d(8, 8, 1, groups=2), nn.Flatten(), nn.Linear(8, 3))
    x = torch.randn(6, 2, 1, 1)
    h = model[:2](x)
    check(values(model, x), {("0", "2.weight"): h.flatten(1), ("2", "4.weight"): model[2](h).flatten(1)})


def test_bias_and_product_in_one():
    model = Net(
        lambda m, x: torch.addmm(m.b, torch.relu(m.a(x)), m.w),
        a=nn.Linear(3, 6), w=nn.Parameter(torch.randn(6, 2)), b=nn.Parameter(torch.randn(2)),
    )  # fmt: skip
    x = torch.randn(8, 3)
    check(values(model, x), {("a", "w"): torch.relu(model.a(x))})
