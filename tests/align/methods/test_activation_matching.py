import pytest
import torch
from networks import Net, cnn, mlp, resnet20, trained, vgg
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import align
from align.methods.activation_matching import SIMILARITIES, Moments, _scores
from align.methods.activations import captured
from align.running.batchnorm import reset_batchnorm
from wsgraph import Group, Param, Permutation, Spec, trace

ARCHITECTURES = {
    "mlp": (lambda: mlp(12, 24, 20, 16, 5), (12,)),
    "cnn": (cnn, (3, 8, 8)),
    "vgg": (lambda: trained(vgg((1, 1, 2, 2, 2), (4, 8, 8, 8, 8), hidden=16)), (3, 32, 32)),
    "resnet20": (lambda: resnet20(4), (3, 8, 8)),
}


def alive(model, spec, x):
    """Group → which neurons answer differently to different inputs, wherever they are read."""
    out = {}

    def look(group, _reader, values):
        out[group] = out.get(group, False) | (values.std(0) > 1e-6)

    with torch.no_grad(), captured(model, spec, look):
        model(x)
    return out


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_planted_permutations_are_recovered_20_of_20(name):
    make, shape = ARCHITECTURES[name]
    x = torch.randn(64, *shape)
    recovered, dead, total = 0, 0, 0
    for seed in range(20):
        torch.manual_seed(seed)
        a = reset_batchnorm(make().eval(), None, x)  # norm statistics that fit, or most neurons are dead
        spec = trace(a, x[:2])
        expected = Permutation.random(spec).inverse()
        found = align.match(a, expected.inverse().apply(a), "activation_matching", data=x, example_input=x[:2])
        living = alive(a, spec, x)
        recovered += all(torch.equal(found.maps[k][v], expected.maps[k][v]) for k, v in living.items())
        dead, total = dead + sum(int((~v).sum()) for v in living.values()), total + sum(map(len, living.values()))
    assert recovered == 20
    assert dead < total / 4


@pytest.mark.parametrize("method", ["activation_matching", "activation_matching+weight_matching"])
def test_the_caller_says_how_much_noise_is_drawn(method, monkeypatch):
    seen, add = [], Moments.add
    monkeypatch.setattr(Moments, "add", lambda moments, x, y: seen.append(len(x)) or add(moments, x, y))
    a, b = mlp(4, 6, 3), mlp(4, 6, 3)
    align.match(a, b, method, data="noise", seed=0)
    assert sum(seen) == 5000
    seen.clear()
    align.match(a, b, method, data="noise", samples=600, seed=0)
    assert sum(seen) == 600
    with pytest.raises(ValueError, match="but data is given"):
        align.match(a, b, method, data=torch.randn(9, 4), samples=600)


def test_correlation_by_hand_and_streaming():
    x, y = torch.randn(40, 3), torch.randn(40, 4) + 5
    whole, parts = Moments(), Moments()
    whole.add(x, y)
    for k in range(0, 40, 7):
        parts.add(x[k : k + 7], y[k : k + 7])
    expected = torch.corrcoef(torch.cat([x, y], 1).T)[:3, 3:].double()
    torch.testing.assert_close(parts.similarity("correlation"), expected, atol=1e-5, rtol=0)
    xd, yd = x.double(), y.double()
    torch.testing.assert_close(parts.similarity("inner"), xd.T @ yd / 40)
    torch.testing.assert_close(parts.similarity("covariance"), (xd - xd.mean(0)).T @ (yd - yd.mean(0)) / 40)
    for kind in SIMILARITIES:
        torch.testing.assert_close(parts.similarity(kind), whole.similarity(kind))


def test_all_readers_of_a_group_count():
    """One weight reads what is positive, another what is negative: alike in both is more than alike in one."""

    def make():
        parts = {"first": nn.Linear(4, 6), "up": nn.Linear(6, 2), "down": nn.Linear(6, 2)}
        return Net(lambda m, x: m.up(torch.relu(m.first(x))) - m.down(torch.relu(-m.first(x))), **parts)

    a, b, x = make(), make(), torch.randn(64, 4)
    found = align.match(a, b, "activation_matching", data=x, example_input=x)
    seen = [torch.cat([m.first(x), -m.first(x)], 1).relu().detach().double() for m in (a, b)]
    expected = torch.corrcoef(torch.cat(seen, 1).T)[:12, 12:]
    torch.testing.assert_close(found.scores["first"], expected[:6, :6] + expected[6:, 6:])


def test_memory_does_not_grow_with_the_number_of_images():
    sizes = []
    for count in (10, 1000):
        moments = Moments()
        for _ in range(count):
            moments.add(torch.randn(8, 5), torch.randn(8, 6))
        sizes.append(sum(s.numel() for s in moments.sums))
        assert moments.count == 8 * count
        assert all(s.dtype == torch.float64 for s in moments.sums)
    assert sizes[0] == sizes[1] == 5 + 6 + 5 + 6 + 30


def test_activations_are_gone_when_the_next_batch_comes():
    """At most one batch's worth of values is alive at any time."""
    model, peaks = mlp(4, 50, 2), []

    class Loader:
        def __iter__(self):
            import gc

            for _ in range(4):
                yield torch.randn(33, 4)
                peaks.append(sum(1 for t in gc.get_objects() if type(t) is torch.Tensor and t.shape == (33, 50)))

    align.match(model, mlp(4, 50, 2), "activation_matching", data=Loader())
    assert max(peaks) <= 4
    assert peaks[-1] <= peaks[0]


def test_dead_neurons_match_something_and_nothing_breaks():
    a = mlp(4, 6, 2)
    a[0].bias.data[:3] = -100
    b = Permutation.random(trace(a)).apply(a)
    found = align.match(a, b, "activation_matching", data=torch.randn(64, 4))
    assert found.scores["0"].isfinite().all()
    found.permutation  # noqa: B018 - is one


def test_what_never_changes_is_like_nothing_whatever_its_value():
    x = torch.rand(6).expand(50, 6)  # behind a dead layer
    moments = Moments()
    moments.add(x, x.flip(1))
    assert moments.similarity("correlation").abs().max() < 1e-3
    loud = Moments()
    overflow = torch.full((50, 1), 1e300, dtype=torch.float64)
    loud.add(*(torch.cat([torch.randn(50, 2), overflow], dim=1) for _ in range(2)))
    found = loud.similarity("correlation")
    assert found[:2, :2].abs().max() > 0.01
    assert not found[2].isfinite().any()


def test_values_that_overflow_are_said_to():
    data = torch.randn(9, 4).index_fill(0, torch.tensor([3]), torch.nan)
    with pytest.raises(ValueError, match=r"values of group '0' are not finite .*NaN or Inf, or values overflow"):
        align.match(mlp(4, 6, 2), mlp(4, 6, 2), "activation_matching", data=data)


def test_correlation_is_blind_to_scale():
    a = mlp(4, 8, 3)
    g = Permutation.random(trace(a))
    b = g.apply(a)
    factor = torch.rand(8) * 5 + 0.1
    with torch.no_grad():
        b[0].weight.mul_(factor[:, None])
        b[0].bias.mul_(factor)
        b[2].weight.div_(factor)
    found = align.match(a, b, "activation_matching", data=torch.randn(256, 4))
    assert found.permutation == g.inverse()


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_similarities_recover_a_planted_permutation(similarity):
    a = mlp(5, 7, 6, 3)
    g = Permutation.random(trace(a))
    # Inner products compare sizes too, so neurons must have equal ones.
    with torch.no_grad():
        for layer in (a[0], a[2]):
            layer.weight.copy_(torch.eye(*layer.weight.shape) + 0.1 * torch.randn(layer.weight.shape))
            layer.bias.fill_(0.5)
    x = torch.randn(400, 5)
    found = align.match(a, g.apply(a), "activation_matching", data=x, similarity=similarity)
    assert torch.equal(found.maps["0"][:5].sort().values, g.inverse().maps["0"][:5].sort().values)


def test_loaders_tensors_and_noise_are_reproducible():
    a, b = mlp(4, 9, 2), mlp(4, 9, 2)
    x, y = torch.randn(100, 4), torch.zeros(100)
    results = [
        align.match(a, b, "activation_matching", data=data).permutation
        for data in (x, (x, y), DataLoader(TensorDataset(x, y), batch_size=13), x.double())
    ]
    assert all(r == results[0] for r in results)
    one, two = (align.match(a, b, "activation_matching", data="noise", seed=1) for _ in range(2))
    assert one.permutation == two.permutation
    assert torch.equal(one.scores["0"], two.scores["0"])


def test_networks_keep_their_modes_and_statistics():
    def make():
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 2))

    a, b, x = make(), make(), torch.randn(50, 4)
    a[1].eval()
    before = [{k: t.clone() for k, t in m.state_dict().items()} for m in (a, b)]
    found = align.match(a, b, "activation_matching", data=x)
    assert [m.training for m in a.modules()] == [True, True, False, True, True, True]
    assert all(m.training for m in b.modules())
    for model, old in zip((a, b), before, strict=True):
        assert all(torch.equal(t, old[k]) for k, t in model.state_dict().items())
    again = align.match(a.eval(), b.eval(), "activation_matching", data=x)
    assert torch.equal(found.scores["0"], again.scores["0"])


def test_half_precision():
    a = mlp(4, 8, 3).to(torch.bfloat16)
    g = Permutation.random(trace(a))
    found = align.match(a, g.apply(a), "activation_matching", data=torch.randn(512, 4))
    living = alive(a, g.spec, torch.randn(512, 4).to(torch.bfloat16))["0"]
    assert torch.equal(found.maps["0"][living], g.inverse().maps["0"][living])


def test_groups_whose_values_are_hidden_are_named_and_stay():
    def make():
        weights = {"w": nn.Parameter(torch.randn(4, 3)), "v": nn.Parameter(torch.randn(3, 2))}
        return Net(lambda m, x: torch.einsum("ni,ih,ho->no", x, m.w, m.v), **weights)

    data = torch.randn(9, 4)
    hidden = r"read or write groups \['w'\].* 'activation_matching\+weight_matching'"
    with pytest.warns(UserWarning, match=hidden):
        found = align.match(make(), make(), "activation_matching", data=data, example_input=data)
    assert found.permutation == Permutation.identity(found.spec)


def tokens(function, **parts):
    """Linear ``i``, then ``function(self, i(x))`` of width 8, read by Linear ``o``."""
    return Net(lambda m, x: m.o(function(m, m.i(x))), i=nn.Linear(6, 8), o=nn.Linear(8, 2), **parts)


INSIDE = {
    "self-attention": lambda: tokens(lambda m, h: h + m.a(h, h, h)[0], a=nn.MultiheadAttention(8, 2, batch_first=True)),
    "cross-attention of another width": lambda: tokens(
        lambda m, h: h + m.a(h, m.k(h[:, :3]), m.k(h[:, :3]))[0],
        a=nn.MultiheadAttention(8, 2, bias=False, kdim=5, vdim=5, batch_first=True),
        k=nn.Linear(8, 5),
    ),
    "LSTM": lambda: tokens(lambda m, h: m.a(h)[0], a=nn.LSTM(8, 8, 2, batch_first=True)),
    "GRU in both directions": lambda: tokens(
        lambda m, h: m.a(h)[0], a=nn.GRU(8, 4, 2, batch_first=True, bidirectional=True)
    ),
    "RNN without biases": lambda: tokens(lambda m, h: m.a(h)[1][-1], a=nn.RNN(8, 8, 2, bias=False)),
}


@pytest.mark.parametrize("name", INSIDE)
@pytest.mark.filterwarnings("error:no linear layer")
def test_what_is_inside_attention_and_recurrent_layers_is_seen(name):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, x = INSIDE[name]().eval(), torch.randn(64, 5, 6)
    g = Permutation.random(trace(model, x[:2]), torch.Generator().manual_seed(1))
    found = align.match(model, g.apply(model), "activation_matching", data=x, example_input=x[:2])
    assert found.permutation == g.inverse()


def test_scores_of_all_groups_are_on_one_device():
    groups = [Group("h", 3), Group("d", 6, parent="h"), Group("unseen", 2)]
    spec = Spec(groups, [Param(g.name, (g.name,), "bias") for g in groups])
    moments = Moments()
    moments.add(torch.empty(9, 6, device="meta"), torch.empty(9, 6, device="meta"))
    with pytest.warns(UserWarning, match="unseen"):
        scores = _scores(spec, spec, {("d", 0): moments}, "inner")
    assert list(scores) == ["h", "d", "unseen"]
    assert all(s.is_meta for s in scores.values())


def test_without_free_groups():
    found = align.match(nn.Linear(3, 2), nn.Linear(3, 2), "activation_matching", data=torch.randn(9, 3))
    assert found.maps == {}


def test_errors():
    a = mlp(4, 5, 2)
    with pytest.raises(ValueError, match="activation_matching needs data: pass data=inputs"):
        align.match(a, a, "activation_matching")
    with pytest.raises(ValueError, match="similarity 'cosine' is not one of"):
        align.match(a, a, "activation_matching", data="noise", similarity="cosine")
    with pytest.raises(ValueError, match=r"different architectures"):
        align.match(a, mlp(4, 5, 5, 2), "activation_matching", data="noise")


def test_one_sample_tells_nothing():
    a, b = mlp(4, 6, 3), mlp(4, 6, 3)
    message = "saw 1 sample of group '0', and one sample does not tell how neurons vary: pass data with at least two"
    for similarity in ("correlation", "covariance"):
        with pytest.raises(ValueError, match=message):
            align.match(a, b, "activation_matching", data=torch.randn(1, 4), similarity=similarity)
    align.match(a, b, "activation_matching", data=torch.randn(1, 4), similarity="inner")
    maps = nn.Sequential(nn.Conv2d(1, 4, 1), nn.ReLU(), nn.Conv2d(4, 2, 1))  # many places of one image
    align.match(maps, maps, "activation_matching", data=torch.randn(1, 1, 5, 5))
