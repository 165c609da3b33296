"""Every method by name, on trained digits MLPs and on odd networks."""

import threading
import warnings

import pytest
import torch
from networks import Net, mlp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import align
from align.benchmark.models import CASES
from align.demo import digits, network, train
from align.methods import METHODS, learned
from align.methods.registry import takes
from wsgraph import Permutation, to_graph, trace
from wsgraph.testing import Residual

NAMES = [
    "identity", "weight_matching", "activation_matching", "ste", "sinkhorn", "deep_align", "weight_matching+sinkhorn",
    "activation_matching+sinkhorn", "deep_align+sinkhorn", "deep_align+weight_matching",
]  # fmt: skip
QUICK = {"ste": {"iterations": 25}, "sinkhorn": {"iterations": 50}}


def options(method, quick=QUICK, data=None):
    """Few iterations, and the data for those methods that use it."""
    return {"data": data if takes(method, "data") else None} | quick.get(method.split("+")[-1], {})


@pytest.fixture(scope="module")
def trained_pair():
    held, test = digits()
    a, b = (train(network(k), held, seed=k, epochs=10) for k in (1, 2))
    return a, b, held, test, float(align.barrier(a, b, data=test, points=11))


@pytest.mark.parametrize("method", [n for n in NAMES if n not in ("identity", "deep_align")])
def test_barrier_on_digits_is_a_third_of_the_naive_one(trained_pair, method):
    a, b, held, test, naive = trained_pair
    found = align.match(a, b, method, seed=0, **options(method, data=held))
    assert found.method == method
    assert found.elapsed > 0
    aligned = found.apply(b)
    torch.testing.assert_close(aligned(test[0]), b(test[0]), atol=1e-4, rtol=1e-4)
    assert float(align.barrier(a, aligned, data=test, points=11)) < naive / 3


@pytest.mark.parametrize("start", ["weight_matching", "activation_matching"])
def test_sinkhorn_improves_on_its_start(trained_pair, start):
    """The start is not lost in a blur, nor is it a hole nothing climbs out of."""
    a, b, held, _, _ = trained_pair
    before = align.match(a, b, start, seed=0, **options(start, data=held))
    after = align.match(a, b, f"{start}+sinkhorn", data=held, seed=0, iterations=50)
    middle = [float(align.barrier(a, x.apply(b), data=held, points=3)) for x in (before, after)]
    assert middle[1] < middle[0]


class Odd:
    """Small networks with unusual parts, in training mode, and data for them."""

    @staticmethod
    def residual():
        parts = [nn.Conv2d(1, 4, 3, padding=1), Residual(4, 4, norm=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return nn.Sequential(*parts, nn.Linear(4, 3)), (1, 4, 4)

    @staticmethod
    def depthwise():
        parts = [nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 2, groups=4), nn.ReLU(), nn.Flatten()]
        return nn.Sequential(*parts, nn.Linear(4, 3)), (1, 4, 4)

    @staticmethod
    def tied():
        model = Net(
            lambda m, x: m.d(torch.relu(m.c(torch.relu(m.b(torch.relu(m.a(x))))))),
            a=nn.Linear(4, 5), b=nn.Linear(5, 5), c=nn.Linear(5, 5), d=nn.Linear(5, 3),
        )  # fmt: skip
        model.c.weight = model.b.weight
        return model, (4,)

    @staticmethod
    def single_neurons():
        return mlp(4, 1, 3, 1, 3), (4,)

    @staticmethod
    def nothing_free():
        return nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), (4,)

    @staticmethod
    def half():
        return mlp(4, 5, 3).to(torch.bfloat16), (4,)

    @staticmethod
    def pinned():  # sorting is not understood, so the first layer's neurons stay
        return Net(
            lambda m, x: m.c(torch.relu(m.b(m.a(x).sort(-1).values))),
            a=nn.Linear(4, 5),
            b=nn.Linear(5, 6),
            c=nn.Linear(6, 3),
        ), (4,)

    @staticmethod
    def dropout_and_norm():
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3)), (4,)


ODD = [name for name in vars(Odd) if not name.startswith("_")]


@pytest.fixture(scope="module", params=ODD)
def odd(request):
    torch.manual_seed(0)
    make = getattr(Odd, request.param)
    (a, shape), (b, _) = make(), make()
    return a, b, torch.randn(40, *shape), torch.randint(3, (40,))


@pytest.mark.filterwarnings("ignore:.*raise iterations")  # these networks know nothing; nothing is better than nothing
@pytest.mark.parametrize("method", NAMES)
def test_every_method_works_on_odd_networks_and_leaves_them_alone(odd, method):
    a, b, x, y = odd
    before = [{k: t.clone() for k, t in m.state_dict().items()} for m in (a, b)]
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    quick = {"ste": {"iterations": 3}, "sinkhorn": {"iterations": 3}}
    example = x[:2].to(next(a.parameters()).dtype)
    found = align.match(a, b, method, example_input=example, seed=0, **options(method, quick, loader))
    assert a.training
    assert b.training
    for model, old in zip((a, b), before, strict=True):
        assert all(torch.equal(t, old[k]) for k, t in model.state_dict().items())
        assert all(p.grad is None for p in model.parameters())
    moved = found.apply(b)
    assert moved.training
    x = x.to(next(a.parameters()).dtype)
    tolerance = 0.05 if x.dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(moved.eval()(x), b.eval()(x), atol=tolerance, rtol=tolerance)
    b.train()


NESTED = ["BertModel", "GPT2LMHeadModel", "ViTModel", "U-Net with GroupNorm"]
"""Networks with heads, or with channels in groups."""


@pytest.fixture(scope="module", params=NESTED)
def nested(request):
    """Two networks of one architecture that answer with a vector, inputs and targets."""
    if "Model" in request.param:
        pytest.importorskip("transformers")

    def make():
        body, example = CASES[request.param](1 / 8)
        arguments = dict(example) if isinstance(example, dict) else {"x": example}
        name = next(iter(arguments))  # of the input; the others are switches
        x = arguments.pop(name)

        def forward(m, x):
            out = m.body(**{name: x}, **arguments)
            return out.flatten(2).mean(2) if isinstance(out, torch.Tensor) and out.dim() > 2 else out[0].flatten(1)

        return Net(forward, body=body).eval(), x

    torch.manual_seed(0)
    (a, x), (b, _) = make(), make()
    return a, b, x, torch.zeros(len(x), dtype=torch.long)


@pytest.mark.filterwarnings("ignore:.*raise iterations")
@pytest.mark.parametrize("method", METHODS)
def test_every_method_works_on_attention_and_on_groups_of_channels(nested, method):
    a, b, x, y = nested
    quick = {"ste": {"iterations": 2}, "sinkhorn": {"iterations": 2}}
    found = align.match(a, b, method, example_input=x, seed=0, **options(method, quick, (x, y)))
    assert found.maps.keys() == {group.name for group in found.spec.free}
    with torch.no_grad():
        torch.testing.assert_close(found.apply(b)(x), b(x), atol=1e-4, rtol=1e-4)


def test_activations_recover_heads_and_what_is_inside(nested):
    a, _, x, _ = nested
    spec = trace(a, x)
    b = Permutation.random(spec, torch.Generator().manual_seed(1)).apply(a)
    assert align.match(a, b, "activation_matching", data=x, example_input=x).distance == 0


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.filterwarnings("ignore:.*raise iterations")
def test_reproducible_by_seed_or_generator(method):
    a, b = mlp(4, 9, 8, 3), mlp(4, 9, 8, 3)
    data = torch.randn(64, 4), torch.randint(3, (64,))
    quick = {"ste": {"iterations": 5}, "sinkhorn": {"iterations": 30}}
    call = options(method, quick, data)
    one = align.match(a, b, method, seed=5, **call)
    torch.manual_seed(123)  # the global generator plays no part
    two = align.match(a, b, method, generator=torch.Generator().manual_seed(5), **call)
    assert one.permutation == two.permutation


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("method", NAMES)
@pytest.mark.filterwarnings("ignore:.*raise iterations")
def test_groups_are_in_the_order_of_the_spec(method, scale):
    a, b = mlp(4, 9, 8, 7, 6, 3), mlp(4, 9, 8, 7, 6, 3)
    quick = {"ste": {"iterations": 2}, "sinkhorn": {"iterations": 2}}
    data = torch.randn(64, 4), torch.randint(3, (64,))
    found = align.match(a, b, method, scale=scale, seed=0, **options(method, quick, data))
    expected = [group.name for group in found.spec.free]
    assert list(found.maps) == list(found.pairs) == list(found.permutation.maps) == expected
    assert list(found.scores) in ([], expected)


@pytest.mark.parametrize(
    "method", ["identity", "weight_matching", "deep_align", "deep_align+weight_matching", "sinkhorn"]
)
def test_graphs_and_modules_give_the_same(method):
    a, b = mlp(4, 9, 8, 3), mlp(4, 9, 8, 3)
    extra = {"cost": "l2", "iterations": 30} if method == "sinkhorn" else {}
    modules = align.match(a, b, method, seed=0, **extra)
    assert align.match(to_graph(a), to_graph(b), method, seed=0, **extra).permutation == modules.permutation
    assert align.match(a, to_graph(b), method, seed=0, **extra).permutation == modules.permutation


def test_answer_is_how_b_must_be_permuted():
    a = mlp(4, 9, 8, 3)
    g = Permutation.random(to_graph(a).spec)
    b = g.apply(a)
    found = align.match(a, b, seed=0)
    assert found.permutation == g.inverse()
    assert torch.equal(found.apply(b)[0].weight, a[0].weight)


def test_example_input_is_asked_for_and_used():
    a, b = (
        Net(lambda m, x: m.a(x).relu().mean(1) @ m.w, a=nn.Linear(3, 4), w=nn.Parameter(torch.randn(4, 2)))
        for _ in "ab"
    )
    found = align.match(a, b, example_input=torch.randn(2, 5, 3), seed=0)
    assert list(found.maps) == ["a"]


def test_the_pretrained_aligner_goes_to_where_the_networks_are(monkeypatch):
    monkeypatch.setattr("align.deep_align.project", lambda found: None)  # the assignment needs values, meta has none
    monkeypatch.setattr("align.deep_align.refined", lambda a, b, scores, steps: scores)  # so does this
    a, b = (mlp(4, 5, 2).to("meta") for _ in range(2))
    found = align.match(a, b, "deep_align")
    assert all(scores.is_meta for scores in found.scores.values())


def test_unknown_methods():
    a = mlp(4, 5, 2)
    with pytest.raises(ValueError, match=r"no method 'wm'; choose among \['auto', .*join several by '\+'"):
        align.match(a, a, "wm")
    with pytest.raises(ValueError, match="no method ''"):
        align.match(a, a, "weight_matching+")


@pytest.mark.parametrize("last", [m.name for m in METHODS.values() if not m.startable])
def test_methods_that_start_from_scratch_come_first(last):
    a = mlp(4, 5, 2)
    with pytest.raises(ValueError, match=rf"'{last}' starts from scratch, so nothing can come before it; .*'sinkhorn'"):
        align.match(a, a, f"weight_matching+{last}")


@pytest.mark.parametrize("method", ["activation_matching", "ste", "sinkhorn"])
def test_methods_that_run_networks_say_so(method):
    a = mlp(4, 5, 2)
    with pytest.raises((TypeError, ValueError), match=r"runs the networks: pass modules"):
        align.match(to_graph(a), to_graph(a), method, data=(torch.randn(4, 4), torch.zeros(4)))
    with pytest.raises(ValueError, match="data="):
        align.match(a, a, method)


@pytest.mark.filterwarnings("ignore:.*nothing")  # of two networks that learned nothing
@pytest.mark.parametrize("method", ["ste", "sinkhorn"])
def test_inputs_without_targets_get_the_networks_own_answers(method):
    a, b = mlp(4, 8, 3), mlp(4, 8, 3)
    x = torch.randn(64, 4)
    answers = (a(x).softmax(-1) + b(x).softmax(-1)).detach() / 2
    found = align.match(a, b, method, data=x, iterations=20)
    given = align.match(a, b, method, data=(x, answers), iterations=20)
    assert found.permutation == given.permutation  # cross-entropy and divergence differ by what nobody can change


@pytest.mark.parametrize("method", ["ste", "sinkhorn", "identity"])
def test_different_architectures_are_refused(method):
    data = torch.randn(8, 4), torch.zeros(8).long()
    with pytest.raises(ValueError, match=r"different architectures: '0.weight' is \(5, 4\) .* \(6, 4\)"):
        align.match(mlp(4, 5, 2), mlp(4, 6, 2), method, **options(method, data=data))


# --------------------------------------------------------------------------------------------- same call, same answer


@pytest.mark.parametrize(
    ("method", "drawn"), [(n, None) for n in NAMES] + [(n, "noise") for n in (*NAMES, "auto") if takes(n, "data")]
)
def test_the_same_call_gives_the_same_answer_and_draws_nothing(method, drawn):
    """Without a seed, too, whatever torch's generator is at, and with networks that draw when they run."""

    def noisy(m, x):
        return m.body(x) + 0.1 * torch.randn(len(x), 3)

    a, b = (Net(noisy, body=mlp(6, 12, 12, 12, 3)) for _ in range(2))
    data, example = (torch.randn(64, 6), torch.randint(3, (64,))), torch.randn(2, 6)
    quick = options(method, {"ste": {"iterations": 3}, "sinkhorn": {"iterations": 5}}, drawn or data)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few iterations improve nothing
        for _ in range(3):
            before = torch.get_rng_state()
            found.append(align.match(a, b, method, example_input=example, **quick))
            assert torch.equal(torch.get_rng_state(), before)
            torch.rand(1)
    for other in found[1:]:
        assert all(map(torch.equal, found[0].maps.values(), other.maps.values()))
        assert all(map(torch.equal, found[0].scores.values(), other.scores.values()))


def test_no_seed_is_the_seed_0_and_another_gives_another_answer():
    a, b = mlp(4, 20, 2), mlp(4, 20, 2)
    found = [align.match(a, b, "sinkhorn", cost="l2", iterations=50, seed=seed).scores["0"] for seed in (None, 0, 1)]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_the_bundled_aligner_is_read_once_by_many_threads(monkeypatch):
    made, start = [], threading.Barrier(4)
    aligner = align.DeepAlign
    monkeypatch.setattr("align.deep_align.DeepAlign", lambda: made.append(1) or aligner())
    learned._pretrained.cache_clear()
    a, b = (to_graph(mlp(4, 5, 2)) for _ in range(2))

    def work():
        start.wait()
        align.match(a, b, "deep_align")

    threads = [threading.Thread(target=work) for _ in range(4)]
    before = torch.get_rng_state()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert torch.equal(torch.get_rng_state(), before)
