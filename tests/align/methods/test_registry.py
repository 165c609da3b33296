"""Methods by name: what they are asked, how others join them, and what is refused."""

from dataclasses import FrozenInstanceError

import pytest
import torch
from networks import mlp

import align
from align.methods import METHODS, Method, Request, register, registry, run
from wsgraph import Permutation, to_graph


@pytest.fixture(autouse=True)
def forget():
    """What a test registers is gone after it."""
    before = dict(METHODS)
    yield
    registry._METHODS.clear()
    registry._METHODS.update(before)


def pair():
    a = mlp(4, 9, 8, 3)
    return a, Permutation.random(to_graph(a).spec).apply(a)


# ------------------------------------------------------------------------------------------------ a method of one's own


def by_norm(a, b, *, example_input=None, spec=None, power=2.0):
    """Match neurons by the size of what comes in, the largest with the largest."""
    left, right = Request(a, b, example_input=example_input, spec=spec).graphs()
    maps = {}
    for group in left.spec.free:
        weight = next(p for p, x in left.spec.params.items() if x.axes[0].groups == (group.name,) and len(x.axes) > 1)
        sizes = (g.tensors[weight].flatten(1).abs().pow(power).sum(1) for g in (left, right))
        first, second = (torch.argsort(size) for size in sizes)
        maps[group.name] = second[torch.argsort(first)]
    return align.Alignment(left, right, maps=maps, method="by_norm")


def test_a_method_of_ones_own_is_called_like_ours():
    a, b = pair()
    register(Method("by_norm", by_norm))
    found = align.match(a, b, "by_norm", power=1.0)
    assert found.method == "by_norm"
    assert found.distance == 0
    assert align.match(to_graph(a), b.state_dict(), "by_norm").permutation == found.permutation
    joined = align.match(a, mlp(4, 9, 8, 3), "by_norm+weight_matching", scale=True)
    assert joined.method == "by_norm+weight_matching"
    with pytest.raises(TypeError, match=r"'by_norm' has no option 'pwer'; it has \['power'\], and match itself takes"):
        align.match(a, b, "by_norm", pwer=1.0)
    with pytest.raises(ValueError, match=r"no method 'norm'; choose among \[.*'by_norm'\]"):
        align.match(a, b, "norm")


def nearest(request, among=("identity", "weight_matching", "activation_matching")):
    """The best of several, by distance: a method that calls others with the request it got."""
    able = [name for name in among if not METHODS[name].needs_data or request.data is not None]
    return min((run(name, request.fork()) for name in able), key=lambda found: found.distance)


def test_a_method_can_call_others_with_the_request_it_got():
    a, b = mlp(4, 9, 8, 3), mlp(4, 9, 8, 3)
    register(Method("nearest", nearest, startable=True))
    found = align.match(a, b, "nearest", seed=3)
    assert found.method == "nearest"
    assert found.permutation == align.match(a, b, "weight_matching", seed=3).permutation
    some = align.match(a, b, "nearest", data="noise", samples=50, among=("activation_matching",))
    assert some.permutation == align.match(a, b, "activation_matching", data="noise", samples=50).permutation
    joined = align.match(a, b, "deep_align+nearest", among=("weight_matching",))
    assert joined.permutation == align.match(a, b, "deep_align+weight_matching").permutation


def test_a_fork_draws_what_the_request_would():
    request = Request(*pair(), generator=torch.Generator().manual_seed(5))
    forks = [request.fork().generator for _ in range(2)]
    drawn = [torch.rand(3, generator=g) for g in (*forks, request.generator)]
    assert torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], drawn[2])


# ------------------------------------------------------------------------------------------------- what cannot be meant


@pytest.mark.parametrize(
    ("method", "given", "users"),
    [
        ("weight_matching", {"data": torch.randn(8, 4)}, "'auto', 'activation_matching', 'ste', 'sinkhorn'"),
        ("deep_align+weight_matching", {"data": "noise"}, "'auto', 'activation_matching', 'ste', 'sinkhorn'"),
        ("identity", {"samples": 60}, "'auto', 'activation_matching'"),
        ("ste", {"samples": 60}, "'auto', 'activation_matching'"),
        ("weight_matching+sinkhorn", {"aligner": object()}, "'auto', 'deep_align'"),
    ],
)
def test_what_no_method_uses_is_refused(method, given, users):
    (name,) = given
    a, b = pair()
    with pytest.raises(TypeError) as error:
        align.match(a, b, method, **given)
    assert str(error.value).startswith(f"'{method}' does not use {name}=, [{users}] do; leave it out")


def test_one_method_of_a_chain_that_uses_it_is_enough():
    a, b = pair()
    data = torch.randn(64, 4), torch.randint(3, (64,))
    found = align.match(a, b, "deep_align+sinkhorn", data=data, aligner=align.DeepAlign(), iterations=2)
    assert found.method == "deep_align+sinkhorn"


def test_names_are_taken_once():
    with pytest.raises(ValueError, match="there is a method 'identity' already; choose another name, or pass replace"):
        register(Method("identity", by_norm))
    assert register(Method("identity", by_norm), replace=True) is METHODS["identity"]
    for name in ("", "a+b"):
        with pytest.raises(ValueError, match="cannot be called"):
            Method(name, by_norm)


@pytest.mark.parametrize(
    ("function", "flags", "message"),
    [
        (lambda x, b: None, {}, r"'x' is no part of a request \(\['a', 'b', 'init', .*must be an option, with a name"),
        (lambda a, b, *more: None, {}, "'more' is no part of a request"),
        (lambda a, b: None, {"needs_data": True}, "'odd' needs data, so its function must have a parameter 'data'"),
        (lambda a, b: None, {"startable": True}, "'odd' needs init, so its function must have a parameter 'init'"),
    ],
)
def test_functions_that_cannot_be_called_are_refused_at_once(function, flags, message):
    with pytest.raises(TypeError, match=message):
        Method("odd", function, **flags)


def test_the_registry_is_changed_by_register_alone():
    with pytest.raises(TypeError):
        METHODS["mine"] = METHODS["identity"]
    with pytest.raises(FrozenInstanceError):
        METHODS["identity"].name = "mine"
    matching = [f"{what}_matching" for what in ("weight", "covariance", "activation")]
    assert list(METHODS) == ["auto", "identity", *matching, "ste", "sinkhorn", "deep_align"]
