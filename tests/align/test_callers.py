"""Callers: their modules stay as they are, and their modes, dtypes and ways to name an input change no answer."""

import copy
import threading
import warnings

import pytest
import torch
from networks import mlp
from torch import nn

import align
from wsgraph import to_graph

X = torch.randn(8, 3, 9, 11, generator=torch.Generator().manual_seed(0))
METHODS = ["deep_align", "auto", "sinkhorn", "ste"]


class Counting(nn.Module):
    """Writes to its buffers in every forward, and to its weights in some."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 5, 3), nn.Linear(5, 2)
        self.norm = nn.BatchNorm2d(5)
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("whole", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        self.whole += 1
        return self.last(torch.relu(self.norm.train()(self.first(x))).mean((2, 3)))


def convolutional(count=1):
    torch.manual_seed(count)
    layers = [nn.Conv2d(3, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 4, 3), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def matched(a, b, method, **more):
    data = (X, torch.arange(len(X)) % 2) if method in ("sinkhorn", "ste") else None
    steps = {} if data is None else {"iterations": 3}
    return align.match(a, b, method, **{"data": data, "example_input": X, **steps, **more})


@pytest.mark.parametrize("method", [*METHODS, "activation_matching"])
@pytest.mark.filterwarnings("ignore:.*improved nothing", "ignore:.*found nothing better")
def test_nothing_is_written_to_the_callers_networks(method):
    a, b = Counting(), Counting()
    before = [{k: t.clone() for k, t in m.state_dict().items()} for m in (a, b)]
    matched(a, b, method, **({"data": X} if method == "activation_matching" else {}))
    for model, state in zip((a, b), before, strict=True):
        assert all(torch.equal(t, state[k]) for k, t in model.state_dict().items())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:.*improved nothing", "ignore:.*found nothing better")
def test_answers_are_the_same_where_nothing_is_to_be_differentiated(method, mode):
    a, b = mlp(4, 8, 2), mlp(4, 8, 2)
    x = torch.randn(8, 4)
    data = {"data": (x, torch.arange(8) % 2)} if method in ("sinkhorn", "ste") else {}
    expected = matched(a, b, method, example_input=x, **data)
    with mode():
        found = matched(a, b, method, example_input=x, **data)
    assert found.permutation == expected.permutation


def test_warnings_of_other_threads_and_of_later_are_heard():
    pairs = [(mlp(4, 8, 2), mlp(4, 8, 2)) for _ in range(6)]
    threads = [threading.Thread(target=align.match, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    deaf = [f for f in warnings.filters if f[0] == "ignore" and f[1] is None and f[2] is Warning]
    assert not deaf  # others of torch's own may stay, where threads took turns


@pytest.mark.parametrize("method", ["deep_align", "auto", "weight_matching", "activation_matching"])
@pytest.mark.parametrize("other", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("make", [convolutional, lambda k: nn.Sequential(nn.Flatten(), mlp(297, 8, 2))])
def test_networks_of_two_dtypes(method, other, make):
    a, b = make(1), make(2)
    rounded = copy.deepcopy(b).to(other)
    data = {"data": X} if method == "activation_matching" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = align.match(a, rounded, method, example_input=X, **data)
        back = align.match(rounded, a, method, example_input=X, **data)
    if method == "deep_align":
        same = align.match(a, b, method, example_input=X, **data)
        for name, s in same.scores.items():
            assert (found.scores[name] - s).abs().max() < 0.05 * s.abs().max()
    assert {p.dtype for p in found.apply(rounded).parameters()} == {other}
    assert {p.dtype for p in back.apply(a).parameters()} == {torch.float32}
    assert {p.dtype for p in rounded.parameters()} == {other}


def test_a_file_of_half_precision_is_aligned_with_a_module():
    a, b = convolutional(1), convolutional(2)
    half = {name: t.half() for name, t in b.state_dict().items()}
    plain = align.match(a, b, "deep_align", example_input=X).scores
    for name, s in align.match(a, half, "deep_align", example_input=X).scores.items():
        assert (s - plain[name]).abs().max() < 0.05 * s.abs().max()


@pytest.mark.parametrize("form", [lambda x: (x,), lambda x: [x], lambda x: {"input": x}])
@pytest.mark.parametrize("method", ["deep_align", "auto"])
def test_the_only_argument_may_be_wrapped(form, method):
    a, b = convolutional(1), convolutional(2)
    plain, wrapped = (align.match(a, b, method, example_input=x) for x in (X, form(X)))
    assert plain.permutation == wrapped.permutation
    assert [c.score for c in plain.candidates] == [c.score for c in wrapped.candidates]
    found = align.DeepAlign()(to_graph(a, form(X)), to_graph(b, form(X)))
    assert method == "auto" or found.permutation == plain.permutation


class FixedBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.last(torch.relu(self.first(x))).view(8, 2)


def test_networks_that_fail_on_what_is_drawn_are_aligned_unjudged():
    x = torch.randn(8, 5)
    with pytest.warns(UserWarning, match="fail on what is drawn for them, so nothing is judged"):
        found = align.match(FixedBatch(), FixedBatch(), example_input=x)
    assert [c.score for c in found.candidates] == [None]
    with pytest.raises(ValueError, match="does not take the inputs"):
        align.match(FixedBatch(), FixedBatch(), example_input=x, data=torch.randn(300, 5))


def test_one_neuron_against_several_is_refused():
    with pytest.raises(ValueError, match=r"'0' has one neuron in the first network and 8 in the second.*wider network"):
        align.match(mlp(5, 1, 3), mlp(5, 8, 3), "deep_align")


def test_how_many_to_draw_may_be_said_without_data():
    a, b = mlp(5, 7, 3), mlp(5, 7, 3)
    assert align.match(a, b, samples=200).candidates[0].score is not None


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.first, self.last = nn.Embedding(9, 4), nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, ids):
        return self.last(torch.relu(self.first(self.embed(ids).mean(1))))


@pytest.mark.parametrize("method", ["auto", "activation_matching", "sinkhorn"])
@pytest.mark.filterwarnings("ignore:.*found nothing better")
def test_what_cannot_be_inferred_is_read_off_the_data(method):
    ids, classes = torch.randint(9, (20, 5)), torch.randint(3, (20,))
    a, b, few = Tokens(), Tokens(), {"iterations": 3} if method == "sinkhorn" else {}
    found = align.match(a, b, method, data=(ids, classes), **few)
    said = align.match(a, b, method, data=(ids, classes), example_input=ids[:2], **few)
    assert found.permutation == said.permutation


def test_data_that_is_not_used_is_said_to_be():
    a, b = (to_graph(mlp(5, 7, 3)) for _ in range(2))
    with pytest.warns(UserWarning, match="cannot be run, so data= is not used, and nothing is judged: pass modules"):
        align.match(a, b, data=torch.randn(300, 5))


TARGETS = {
    "real numbers": (torch.linspace(-1, 1, 60).reshape(20, 3), "below 0 or above 1.* for regression pass loss="),
    "other integers": (torch.ones(20, dtype=torch.int32), r"of shape \[20\] and type torch.int32, with outputs of"),
    "too many classes": (torch.full((20,), 7), r"does not take the targets .*numbers of classes in torch.long.*says"),
    "flat numbers": (torch.rand(20), r"type torch.float32, with outputs of shape \[20, 3\]"),
}


@pytest.mark.parametrize("targets", TARGETS)
def test_targets_that_the_loss_does_not_take(targets):
    y, message = TARGETS[targets]
    a, b, x = mlp(5, 7, 3), mlp(5, 7, 3), torch.randn(20, 5)
    calls = (align.match, align.barrier, lambda *m, data: align.match(*m, "sinkhorn", data=data, iterations=1))
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call(a, b, data=(x, y))
