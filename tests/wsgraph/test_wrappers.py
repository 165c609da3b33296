import pytest
import torch
from networks import mlp
from torch import distributed, nn

import align
from wsgraph import Permutation, to_graph, trace
from wsgraph.architecture import architecture_key


def never(*_):
    raise AssertionError("compiled")


@pytest.fixture
def process_group():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


WRAPPERS = {
    "data parallel": nn.DataParallel,
    "distributed": nn.parallel.DistributedDataParallel,
    "compiled": lambda model: torch.compile(model, backend=never),
    "compiled and parallel": lambda model: nn.DataParallel(torch.compile(model, backend=never)),
    "compiled inside": lambda model: nn.Sequential(torch.compile(model, backend=never), nn.Tanh()),
}


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("name", WRAPPERS)
def test_what_is_wrapped_is_aligned_and_keeps_its_names(name):
    a, b = (WRAPPERS[name](mlp(4, 9, 3)) for _ in range(2))
    names = list(a.state_dict())
    assert sorted(group.size for group in trace(a).free) == [9]
    assert list(to_graph(a).tensors) == names
    moved = Permutation.random(trace(a), torch.Generator().manual_seed(0)).apply(a)
    alignment = align.match(a, moved, "weight_matching")
    for result in (alignment.apply(moved), align.merge(a, moved, alignment=alignment)):
        assert list(result.state_dict()) == names
        torch.testing.assert_close(result.state_dict(), a.state_dict())
    a.load_state_dict(align.match(a, b, "weight_matching").apply(b).state_dict())
    assert architecture_key(a, None) is not None
    assert architecture_key(a, None) == architecture_key(b, None)


def test_results_run_like_what_was_wrapped():
    model, x = mlp(4, 9, 3), torch.randn(5, 4)
    wrapped = torch.compile(model, backend=never).eval()
    moved = Permutation.random(trace(wrapped)).apply(wrapped)
    assert not moved.training
    torch.testing.assert_close(moved(x), model(x))
    assert float(align.barrier(wrapped, wrapped, data=(x, torch.zeros(5, dtype=torch.long)), points=3)) == 0


@pytest.mark.parametrize("wrapped", [0, 1])
def test_a_wrapped_network_is_matched_with_a_bare_one(wrapped):
    model = mlp(4, 9, 3)
    pair = [model, Permutation.random(trace(model), torch.Generator().manual_seed(0)).apply(model)]
    pair[wrapped] = WRAPPERS["compiled and parallel"](pair[wrapped])
    found = align.match(*pair, "weight_matching").apply(pair[1])
    assert list(found.state_dict()) == list(pair[1].state_dict())
    torch.testing.assert_close(list(found.state_dict().values()), list(model.state_dict().values()))
