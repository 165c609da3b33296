"""The law of the mirror: a mirrored network says of mirrored images what the network says of the images."""

import pytest
import torch
from networks import Net, cnn, mlp, relative_error
from torch import nn

from wsgraph import Permutation, to_graph
from wsgraph.mirror import mirror
from wsgraph.testing import TOLERANCE

IMAGE = (3, 8, 8)


def flat():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 6), nn.ReLU(), nn.Linear(6, 4))


def maps():
    """Kernels of unequal sides, channels in groups, and norms before and after Flatten."""
    first = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(8, 8, (1, 5), padding=(0, 2), groups=2), nn.Flatten(), nn.BatchNorm1d(128), nn.ReLU()]
    return nn.Sequential(*first, *second, nn.Linear(128, 4)).eval()


def branches():
    """Maps of two sizes, flattened and laid one after the other."""

    def forward(m, x):
        a, b = m.a(x).relu(), torch.max_pool2d(m.b(x).relu(), 2)
        return m.out(torch.cat([a.flatten(1), b.flatten(1)], 1))

    convolutions = {name: nn.Conv2d(3, 2, 3, padding=1) for name in "ab"}
    return Net(forward, **convolutions, out=nn.Linear(2 * 64 + 2 * 16, 4))


def kernels_to_images():
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(4, 3, 3, padding=1))


def linear_to_images():
    return Net(lambda m, x: m.b(m.a(x.flatten(1)).relu()).view(-1, 3, 8, 8), a=nn.Linear(192, 5), b=nn.Linear(5, 192))


@pytest.mark.parametrize("make", [flat, maps, branches, cnn, kernels_to_images, linear_to_images])
def test_a_mirrored_network_sees_mirrored_images_as_the_network_sees_the_images(make, dtype):
    model, x = make().to(dtype), torch.randn(5, *IMAGE, dtype=dtype)
    graph = to_graph(model, x)
    said, mirrored = model(x), mirror(graph).to_module(model)
    answers = mirrored(x.flip(-1))
    assert relative_error(said, answers.flip(-1) if said.dim() == 4 else answers) <= TOLERANCE[dtype]
    assert relative_error(said, mirrored(x)) > 1e-2
    twice = mirror(mirror(graph))
    assert all(torch.equal(twice.tensors[name], tensor) for name, tensor in graph.tensors.items())


def test_mirrors_and_permutations_commute():
    graph = to_graph(maps(), torch.randn(2, *IMAGE))
    g = Permutation.random(graph.spec, torch.Generator().manual_seed(0))
    a, b = mirror(g.apply(graph)), g.apply(mirror(graph))
    assert all(torch.equal(a.tensors[name], b.tensors[name]) for name in graph.tensors)


def test_tied_kernels_stay_tied():
    model = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 3, 3, padding=1))
    model[2].weight = model[0].weight
    out = mirror(to_graph(model, torch.randn(1, *IMAGE)))
    assert out.tensors["0.weight"] is out.tensors["2.weight"]
    assert torch.equal(out.tensors["0.weight"], model[0].weight.flip(-1))


@pytest.mark.parametrize("model", [mlp(4, 6, 2), nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU(), nn.Conv1d(4, 2, 3))])
def test_what_has_no_two_sides_is_refused(model):
    example = torch.randn(1, 4) if isinstance(model[0], nn.Linear) else torch.randn(1, 3, 9)
    with pytest.raises(ValueError, match="nothing to mirror"):
        mirror(to_graph(model, example))
