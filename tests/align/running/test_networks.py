"""Natural wrong calls are answered with the right one, and state dicts are read as well as they can be."""

import warnings

import pytest
import torch
from networks import mlp
from torch import nn

import align
from align import DeepAlign
from align.methods import METHODS
from align.methods.registry import takes
from wsgraph import Permutation, WeightGraph, to_graph, trace
from wsgraph.testing import Residual

quiet = pytest.mark.filterwarnings("ignore:.*assuming a plain chain of layers")
torch.manual_seed(0)
A, B = mlp(4, 6, 3), mlp(4, 6, 3)
X, Y = torch.randn(8, 4), torch.randint(3, (8,))

CALLS = {
    "merge a module and a state dict": (
        lambda: align.merge(A, B.state_dict()),
        r"merge averages modules, or .*: pass modules, got OrderedDict; load .* by model.load_state_dict\(state_dict\)",
    ),
    "repair state dicts": (
        lambda: align.merge(A.state_dict(), B.state_dict(), repair="repair", data=X),
        "or state dicts without repair: pass modules, got OrderedDict; load a state dict into one",
    ),
    "merge graphs": (
        lambda: align.merge(to_graph(A), to_graph(B)),
        r"merge averages modules, or .*: pass modules, got WeightGraph; .* graph.to_module\(model\)",
    ),
    "merge by a method": (
        lambda: align.merge(A, B, "deep_align"),
        r"positional arguments, got 'deep_align' .* pass alignment=align.match\(a, b, 'deep_align'\)",
    ),
    "merge by a positional alignment": (
        lambda: align.merge(A, B, align.match(A, B)),
        r"positional arguments, got Alignment\(.* pass alignment=that",
    ),
    "merge by the name of an alignment": (
        lambda: align.merge(A, B, alignment="deep_align"),
        r"is of type str, expected an Alignment: pass alignment=align.match\(a, b, 'deep_align'\)",
    ),
    "data in place of the loss": (
        lambda: align.barrier(A, B, (X, Y)),
        r"loss is of type tuple, expected a function .* barrier\(a, b, data=\(inputs, targets\)\)",
    ),
    "barrier of state dicts": (
        lambda: align.barrier(A.state_dict(), B.state_dict(), data=(X, Y)),
        "barrier runs the networks: pass modules, got OrderedDict; load a state dict",
    ),
    "barrier by a permutation": (
        lambda: align.barrier(A, B, data=(X, Y), alignment=[align.match(A, B).permutation]),
        r"is of type Permutation, expected an Alignment: pass alignment=align.match\(a, b\)",
    ),
    "the method first": (
        lambda: align.match("deep_align", A, B),
        r"the third argument is the method, one of \['auto', .*got Sequential; example inputs go into example",
    ),
    "inputs third": (
        lambda: align.match(A, B, X),
        r"the third argument is the method, .*got Tensor; example inputs go into example_input=",
    ),
    "modules needed": (
        lambda: align.match(A.state_dict(), B, "weight_matching+ste", data=(X, Y)),
        "ste runs the networks: pass modules, got OrderedDict; load a state dict into one",
    ),
    "unknown option": (
        lambda: align.match(A, B, "weight_matching", sweeps=3),
        r"'weight_matching' has no option 'sweeps'; it has \['max_sweeps', 'restarts', 'tolerance'\], .*'spec'",
    ),
    "unknown option of a chain": (
        lambda: align.match(A, B, "weight_matching+sinkhorn", max_sweeps=3),
        r"'sinkhorn' has no option 'max_sweeps'; it has \['loss', 'cost', 'iterations'",
    ),
    "option of a method that has none": (
        lambda: align.match(A, B, "deep_align", temperature=2.0),
        "'deep_align' has no option 'temperature'; it has none, and match itself takes .*'aligner'",
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_call_is_answered_with_the_right_one(call):
    run, message = CALLS[call]
    with pytest.raises(TypeError, match=message):
        run()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:.*raise iterations")
def test_a_spec_takes_the_place_of_a_trace(method, monkeypatch):
    spec = trace(A)
    monkeypatch.setattr("wsgraph.graph.trace", None)
    options = {"ste": {"iterations": 2}, "sinkhorn": {"iterations": 2}}.get(method, {})
    data = (X, Y) if takes(method, "data") else None
    assert align.match(A, B, method, data=data, spec=spec, seed=0, **options).spec is spec


def test_a_spec_is_enough_for_state_dicts():
    found = align.match(A.state_dict(), B.state_dict(), "weight_matching", spec=trace(A))
    assert found.permutation == align.match(A, B, "weight_matching").permutation
    with pytest.raises(ValueError, match=r"'0.weight' has shape \(6, 4\), but the Spec expects \(5, 4\)"):
        align.match(A.state_dict(), B.state_dict(), spec=trace(mlp(4, 5, 3)))


@pytest.mark.parametrize("method", ["weight_matching", "deep_align"])
@pytest.mark.parametrize("first", [nn.Module, WeightGraph])
def test_a_state_dict_has_the_symmetry_of_the_network_beside_it(method, first):
    """Nothing is assumed, so nothing is said, even of a residual network."""
    a = nn.Sequential(nn.Conv2d(1, 5, 3, padding=1), Residual(5, 5, norm=True), nn.Conv2d(5, 2, 1)).eval()
    b = Permutation.random(to_graph(a).spec).apply(a)
    known = a if first is nn.Module else to_graph(a)
    x = torch.randn(2, 1, 4, 4)
    for found in (align.match(known, b.state_dict(), method), align.match(a.state_dict(), to_graph(b), method)):
        torch.testing.assert_close(found.apply(b)(x), a(x))
        torch.testing.assert_close(found.apply(b)[0].weight, a[0].weight)


@pytest.mark.parametrize(
    "call",
    [
        lambda *nets: align.match(*nets[:2]),
        lambda *nets: align.match(*nets[:2], scale=True),
        lambda *nets: align.match_many(nets),
        lambda *nets: align.pairwise_distance(nets),
    ],
)
def test_state_dicts_alone_are_assumed_to_be_chains_and_that_is_said_once(call):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call(A.state_dict(), B.state_dict(), mlp(4, 6, 3).state_dict())
    assert [str(w.message).partition(" assuming")[0] for w in said] == [
        "the Spec is read off the tensors of a state dict,"
    ]


@quiet
def test_a_state_dict_of_other_widths_is_read_off_its_own_tensors():
    assert not align.match(A, mlp(4, 7, 3).state_dict(), "deep_align").square


def test_other_names_than_those_of_the_module_are_listed():
    with pytest.raises(KeyError, match=r"missing keys \['0.weight'.*unexpected keys \['module.0.weight'"):
        align.match(A, {f"module.{name}": t for name, t in B.state_dict().items()}, "deep_align")


def test_what_is_no_tensor_in_a_state_dict_is_named():
    with pytest.raises(TypeError, match=r"'0.weight' is of type int, expected a tensor; if this is a checkpoint"):
        align.match(A, {**B.state_dict(), "0.weight": 3}, "deep_align")


def test_the_pretrained_aligner_is_read_once(monkeypatch):
    before = align.match(A, B, "deep_align")
    own = DeepAlign().double().train()  # somebody's own is another one
    monkeypatch.setattr("safetensors.torch.load_file", None)
    after = align.match(A, B, "deep_align")
    assert own.training
    assert all(torch.equal(after.scores[k], s) and not s.requires_grad for k, s in before.scores.items())


@pytest.mark.parametrize("several", [False, True])
def test_barrier_aligns_b_first(several):
    found = align.match(A, B)
    expected = align.barrier(A, found.apply(B), data=(X, Y), points=5)
    if several:
        got = align.barrier([A, A], [B, B], data=(X, Y), points=5, alignment=[found, found])
        assert torch.equal(got.loss, torch.stack([expected.loss, expected.loss]))
    else:
        assert torch.equal(align.barrier(A, B, data=(X, Y), points=5, alignment=found).loss, expected.loss)
        with pytest.raises(ValueError, match="1 networks to align need as many alignments, got 2"):
            align.barrier(A, B, data=(X, Y), alignment=[found, found])


def test_an_alignment_of_different_widths_says_so():
    found = align.match(A, mlp(4, 9, 3), "deep_align")
    assert "6 of 6 neurons matched, partial: different widths, see .pairs" in repr(found)
    assert "partial" not in repr(align.match(A, B))
