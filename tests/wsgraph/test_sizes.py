import pytest
import torch
from networks import Net, free_sizes
from torch import nn

from wsgraph import trace
from wsgraph.testing import assert_function_preserved


def layers(forward, **buffers):
    model = Net(forward, a=nn.Linear(4, 6), b=nn.Linear(6, 2))
    for name, value in buffers.items():
        model.register_buffer(name, value)
    return model


def selecting(m, x):
    return m.b(torch.relu(m.a(x)[x[:, 0] > 0]))


def halves(m, x):
    h, k = torch.relu(m.a(x)), m.k.item()
    return m.b(torch.cat([h[:, k:], h[:, :k]], 1))


def distinct(m, x):
    """One row for each distinct node; how many there are is not asked."""
    _, place = torch.unique(m.k, return_inverse=True)
    return m.b(torch.relu(m.a(x))[place])


def self_loops_removed(m, x):
    edges = m.k[:, m.k[0] != m.k[1]]
    h = torch.relu(m.a(x))
    return m.b(torch.zeros_like(h).index_add(0, edges[1], h[edges[0]]))


CASES = {
    "rows under a mask": (selecting, torch.tensor(0), {"a": 6}),
    "a number kept in a buffer": (halves, torch.tensor(2), {"a": 2, "a.2": 4}),
    "distinct nodes": (distinct, torch.tensor([3, 0, 3, 1]), {"a": 6}),
    "some edges of a graph": (self_loops_removed, torch.tensor([[0, 1, 2], [1, 1, 3]]), {"a": 6}),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_that_depend_on_values_are_those_of_the_example(name):
    forward, k, expected = CASES[name]
    model, x = layers(forward, k=k), torch.randn(5, 4)
    spec = trace(model, x)
    assert free_sizes(spec) == expected
    assert_function_preserved(model, x, spec)


def test_networks_with_other_values_are_traced_anew():
    sizes = [free_sizes(trace(layers(halves, k=torch.tensor(k)), torch.randn(5, 4))) for k in (1, 3)]
    assert sizes == [{"a.2": 5}, {"a": 3, "a.2": 3}]
