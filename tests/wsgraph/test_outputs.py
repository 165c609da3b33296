from collections import OrderedDict

import pytest
import torch
from hub_models import Decoder, ModelOutput, encoded
from networks import Net, free_sizes
from torch import nn

from wsgraph import to_graph, trace, tracing
from wsgraph.outputs import outputs_of
from wsgraph.testing import assert_function_preserved

FOUND = {"embed": 8, "q.runs": 2, "q": 8, "v": 8}


@pytest.mark.parametrize("kind", [dict, lambda x: x, lambda x: x["input_ids"]], ids=["dict", "encoding", "tensor"])
def test_default_calls_of_models_from_the_hub(kind):
    model, x = Decoder(), kind(encoded())
    spec = trace(model, x)
    assert free_sizes(spec) == FOUND
    assert_function_preserved(model, x, spec)
    assert to_graph(model, x).spec == spec


def test_caches_are_no_outputs():
    tensor, cache = torch.ones(2), object()
    inner = ModelOutput(last=tensor, memory=cache)
    returned = ModelOutput(logits=tensor, states=(tensor, [tensor]), text=inner, past_key_values=(tensor,), count=3)
    assert outputs_of(returned) == {"logits": tensor, "states": (tensor, [tensor]), "text": {"last": tensor}}
    assert outputs_of(ModelOutput(memory=cache)) == ModelOutput(memory=cache)  # nothing to judge by: not ours to drop


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_whatever_else_is_returned_is_an_output(kind):
    returned = kind(logits=torch.ones(2), past_key_values=torch.ones(2))
    assert outputs_of(returned) is returned
    model = Net(lambda m, x: kind(y=m.b(m.a(x)), mems=m.a(x)), a=nn.Linear(4, 6), b=nn.Linear(6, 2))
    assert free_sizes(trace(model, torch.randn(3, 4))) == {}


def test_two_folders_of_one_architecture_are_traced_once(monkeypatch):
    first = trace(Decoder("here"), encoded(3))
    monkeypatch.setattr(tracing, "export", None)
    assert trace(Decoder("there"), encoded(3)) is first


def test_other_settings_are_another_architecture():
    sizes = [free_sizes(trace(Decoder("here", heads), encoded())) for heads in (2, 4)]
    assert sizes == [FOUND, {**FOUND, "q.runs": 4}]
