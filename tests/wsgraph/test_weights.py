import warnings

import pytest
import torch
from networks import mlp
from torch import nn

from wsgraph import Spec, to_graph, trace

quiet = pytest.mark.filterwarnings("ignore:.*assuming a plain chain of layers")


def with_first(convert, **changes):
    """The state dict of an MLP, its first weight converted."""
    state = mlp(4, 5, 2).state_dict()
    return {**state, "0.weight": convert(state["0.weight"]), **changes}


def holding(weight):
    """A module with such a weight."""
    model = mlp(4, 5, 2)
    model[0].weight = nn.Parameter(weight, requires_grad=False)
    return model


def quantised_tensor(weight):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(weight, 0.1, 0, torch.qint8)


WEIGHTS = {
    "complex": (
        lambda w: w.to(torch.complex64),
        TypeError,
        r"'0.weight' is complex \(torch.complex64\), expected real numbers: .* keep real and imaginary part as two",
    ),
    "float8": (
        lambda w: w.to(torch.float8_e4m3fn),
        TypeError,
        r"'0.weight' is of type torch.float8_e4m3fn, .* expected one of .*'torch.bfloat16'.*: pass it as .to\(torch",
    ),
    "sparse": (
        lambda w: w.to_sparse(),
        TypeError,
        r"'0.weight' is stored as torch.sparse_coo, expected a dense tensor: pass it as .to_dense\(\)",
    ),
    "no neurons": (
        lambda w: w[:0],
        ValueError,
        r"'0.weight' has shape \(0, 4\), a layer without neurons; expected at least one on every axis",
    ),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_cannot_be_aligned_are_told_what_they_are(name):
    convert, kind, message = WEIGHTS[name]
    state = with_first(convert)
    spec = trace(mlp(4, 5, 2))
    for call in (
        lambda: to_graph(state),
        lambda: to_graph(state, spec=spec),
        lambda: to_graph(holding(state["0.weight"]), torch.randn(2, 4)),
        lambda: to_graph(holding(state["0.weight"]), torch.randn(2, 4), spec=spec),
        lambda: trace(holding(state["0.weight"]), torch.randn(2, 4)),
    ):
        with pytest.raises(kind, match=message):
            call()


def test_quantised_tensors():
    with pytest.raises(TypeError, match=r"'0.weight' is quantised \(torch.qint8\), expected real numbers: pass it as"):
        to_graph(with_first(quantised_tensor))


def test_lazy_weights():
    model = nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.Linear(5, 2))
    with pytest.raises(ValueError, match=r"'0.weight' is lazy and has no shape yet: call the model once on an input"):
        trace(model, torch.randn(2, 4))


@quiet
def test_integers_where_neurons_move():
    message = r"'0.weight' holds integers \(torch.int64\) for neurons that can be permuted, .* weights as .float\(\)"
    with pytest.raises(TypeError, match=message):
        to_graph(with_first(lambda w: (100 * w).long()))
    with pytest.raises(
        TypeError, match=r"no entry holds real numbers, all are of type torch.int64: pass .* as .float\(\)"
    ):
        to_graph({"weight": torch.ones(2, 3, dtype=torch.long)})


@quiet
def test_masks_and_counters_are_no_weights():
    state = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 2)).state_dict()  # counts batches
    assert to_graph(state).num_nodes == 11
    spec = trace(mlp(4, 5, 2))
    params = [*spec.params.values(), type(spec.params["0.weight"])("mask", ("0", "input"))]
    masked = {**mlp(4, 5, 2).state_dict(), "mask": torch.ones(5, 4, dtype=torch.bool)}
    assert to_graph(masked, spec=Spec(spec.groups.values(), params)).num_nodes == 11


def test_empty_buffers_are_no_layers():
    model = mlp(4, 5, 2)
    model.register_buffer("seen", torch.zeros(0))
    assert to_graph(model).num_nodes == 11


def test_scripted_modules_are_named():
    scripted = torch.jit.script(mlp(4, 5, 2))
    with pytest.raises(
        TypeError, match=r"this is a torch.jit module \(torch.jit.*\), .* pass the Python module it was"
    ):
        trace(scripted)
    with pytest.raises(TypeError, match=r"'0' is a torch.jit module"):
        to_graph(nn.Sequential(scripted, nn.Linear(2, 2)), torch.randn(2, 4))
    activated = nn.Sequential(nn.Linear(4, 5), torch.jit.script(nn.ReLU()), nn.Linear(5, 2))
    assert [group.name for group in trace(activated, torch.randn(2, 4)).free] == ["0"]


def test_quantised_modules_are_named():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.ao.quantization.quantize_dynamic(mlp(4, 5, 2), {nn.Linear}, dtype=torch.qint8)
    message = r"'0' is quantised \(torch.ao.nn.quantized.dynamic.*Linear\): .* Align and merge the networks before"
    with pytest.raises(TypeError, match=message):
        trace(quantised, torch.randn(2, 4))
