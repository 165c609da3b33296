from itertools import pairwise

import pytest
import safetensors.torch
import torch
from networks import Net, cnn, mlp
from torch import nn

from wsgraph import to_graph
from wsgraph.ordering import in_order
from wsgraph.testing import assert_function_preserved

quiet = pytest.mark.filterwarnings("ignore:.*assuming a plain chain of layers")


def named(**layers):
    """Layers by name, run one after the other."""
    return Net(lambda m, x: nn.Sequential(*(getattr(m, name) for name in layers))(x), **layers)


def split():
    """Convolutions under a name that comes after that of the linear layers, which could read them, too."""
    maps = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3), nn.ReLU())
    return named(features=maps, flatten=nn.Flatten(), classifier=mlp(16, 4, 3))


MODELS = {
    "twelve equal layers": (lambda: mlp(*(5,) * 13), (5,)),
    "different widths": (lambda: mlp(4, 5, 6, 2), (4,)),
    "no bias": (lambda: nn.Sequential(*(nn.Linear(a, b, bias=False) for a, b in pairwise([3] * 13))), (3,)),
    "batch norm and Flatten": (cnn, (3, 8, 8)),
    "layer norm": (lambda: nn.Sequential(nn.Linear(5, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 5)), (5,)),
    "norm first": (lambda: nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5)), (5,)),
    "depthwise": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 1), nn.Conv2d(6, 6, 3, groups=6), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 2, 1)
        ),
        (3, 4, 4),
    ),
    "numbered names": (lambda: named(fc1=nn.Linear(5, 5), fc2=nn.Linear(5, 5), fc10=nn.Linear(5, 5)), (5,)),
    "shapes tell": (lambda: named(start=nn.Linear(4, 6), norm=nn.LayerNorm(6), end=nn.Linear(6, 3)), (4,)),
    "two parts": (split, (3, 6, 6)),
}


@quiet
@pytest.mark.parametrize("name", MODELS)
def test_entries_in_the_order_of_a_file(name, tmp_path):
    make, shape = MODELS[name]
    model = make()
    safetensors.torch.save_file(model.state_dict(), tmp_path / "x.safetensors")
    stored, by_name = safetensors.torch.load_file(tmp_path / "x.safetensors"), dict(sorted(model.state_dict().items()))
    graph = to_graph(by_name)
    assert list(graph.tensors) == list(by_name)  # the Spec has the order, the caller's entries stay as they are
    assert_function_preserved(model, torch.randn(2, *shape), graph.spec)
    for other in (stored, model.state_dict()):
        assert to_graph(other).spec.groups == graph.spec.groups
        assert to_graph(other).spec.params == graph.spec.params


AMBIGUOUS = {
    "equal layers without numbers": (
        {"left.weight": (5, 5), "right.weight": (5, 5)},
        "more than one chain fits their shapes: left → right and right → left. Pass them in the order of module.state",
    ),
    "a norm of several layers": (
        {"a1.weight": (5, 4), "a2.weight": (5, 5), "norm.weight": (5,)},
        "more than one chain fits their shapes: a1 → norm → a2 and a1 → a2 → norm",
    ),
    "several weights in one module": (
        {"b1": (5,), "b2": (5,), "w1": (5, 5), "w2": (5, 5)},
        r"\['w1', 'w2'\] belong to one module",
    ),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_an_order_that_cannot_be_told_is_refused(name):
    shapes, message = AMBIGUOUS[name]
    with pytest.raises(ValueError, match=f"entries of the state dict are sorted by name, and {message}"):
        to_graph({key: torch.randn(shape) for key, shape in shapes.items()})


def test_an_order_that_nobody_sorted_is_kept():
    shapes = {"right.weight": (5, 5), "right.bias": (5,), "left.weight": (5, 5), "left.bias": (5,)}
    tensors = {key: torch.randn(shape) for key, shape in shapes.items()}
    assert list(in_order(tensors)) == list(tensors)
