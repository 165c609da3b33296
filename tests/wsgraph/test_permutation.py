import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import cnn, mlp, relative_error
from torch import nn

from wsgraph import Axis, Group, Param, Permutation, Spec, to_graph, trace
from wsgraph.files import save_tensors
from wsgraph.testing import TOLERANCE, assert_function_preserved, random_architecture

SEEDS = st.integers(0, 10_000)


@pytest.fixture(scope="module")
def spec():
    return trace(mlp(4, 5, 6, 2))


@pytest.fixture(scope="module")
def nested():
    """Two attention-like heads of three dimensions: a query reads the stream, an output projection reads the heads."""
    groups = [Group("stream", 4, why="network input"), Group("heads", 2), Group("dims", 6, parent="heads")]
    params = [
        Param("q", ("dims", "stream"), "weight", reads=1),
        Param("temperature", ("heads",), "other"),
        Param("o", ("stream", "dims"), "weight", reads=1),
    ]
    return Spec(groups, params)


def softened(permutation, dtype=torch.float64):
    maps = {k: permutation.matrix(k).to(dtype) for k in permutation.maps}
    return Permutation(permutation.spec, maps)


def state(model):
    return {k: v.detach() for k, v in model.state_dict().items()}


@pytest.mark.parametrize("kernel", [(), (1,), (1, 1), (3, 3)])
@pytest.mark.parametrize("contiguous", [True, False])
def test_both_axes_of_a_weight_are_indexed(kernel, contiguous):
    spec = Spec([Group("out", 5), Group("in", 4)], [Param("weight", ("out", "in", *kernel), "weight", reads=1)])
    weight = torch.randn(5, 4, *kernel) if contiguous else torch.randn(4, 5, *kernel).transpose(0, 1)
    p = Permutation.random(spec)
    assert torch.equal(p.apply({"weight": weight})["weight"], weight[p.maps["out"]][:, p.maps["in"]])


# ------------------------------------------------------------------------------------------------- the function stays


@settings(max_examples=15)
@given(SEEDS)
def test_random_architectures_keep_their_function_and_come_back_bit_for_bit(seed):
    model, x = random_architecture(seed)
    spec = trace(model, x)
    permutation = Permutation.random(spec, torch.Generator().manual_seed(seed))
    permuted = permutation.apply(model.double())
    with torch.no_grad():
        assert relative_error(model(x.double()), permuted(x.double())) <= TOLERANCE[torch.float64]
    moved = any(not torch.equal(v, torch.arange(len(v))) for v in permutation.maps.values())
    before, after, back = state(model), state(permuted), state(permutation.inverse().apply(permuted))
    assert moved == any(not torch.equal(before[k], after[k]) for k in before)
    assert all(torch.equal(before[k], back[k]) for k in before)


def permute_one_axis(model, name, dim):
    """Roll the group of one axis of one parameter and leave all its other axes where they are."""
    spec, tensors = trace(model), model.state_dict()
    axes = tuple(
        axis if k == dim else size
        for k, (axis, size) in enumerate(zip(spec.params[name].axes, spec.shape(name), strict=True))
    )
    alone = Spec(spec.groups.values(), [Param(name, axes)])
    maps = {g: torch.arange(spec.groups[g].size).roll(1) for g in spec.params[name].axes[dim].groups}
    return {**tensors, **Permutation(alone, maps).apply({name: tensors[name]})}


@pytest.mark.parametrize("model", [mlp(4, 5, 6, 2, activation=nn.GELU), cnn()], ids=["mlp", "cnn"])
def test_permuting_one_axis_of_a_group_alone_changes_the_function(model):
    spec, x = trace(model), torch.randn(4, 3, 8, 8) if isinstance(model[0], nn.Conv2d) else torch.randn(4, 4)
    free = {g.name for g in spec.free}
    axes = [
        (name, dim) for name, p in spec.params.items() for dim, axis in enumerate(p.axes) if free & set(axis.groups)
    ]
    assert len(axes) >= 6
    for name, dim in axes:
        with torch.no_grad():
            out = torch.func.functional_call(model, permute_one_axis(model, name, dim), (x,))
        assert relative_error(model(x), out) > 1e-3, f"dimension {dim} of '{name}' can be permuted alone"


def test_uncoupled_permutations_change_the_function(spec):
    """Each layer's outputs permuted by one permutation and the next layer's inputs by another."""
    model = mlp(4, 5, 6, 2).double()
    p, q = (Permutation.random(spec, torch.Generator().manual_seed(k)).apply(model.state_dict()) for k in (0, 1))
    mixed = {name: (p if name.startswith("0.") else q)[name] for name in p}
    x = torch.randn(3, 4, dtype=torch.float64)
    assert relative_error(model(x), torch.func.functional_call(model, mixed, (x,))) > 1e-3


def test_the_wrong_order_of_flatten_breaks_the_function():
    """Channels come first after Flatten: (C, H, W), not (H, W, C)."""
    model, x = cnn().double(), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    spec = trace(model, x)
    right = spec.params["5.weight"]
    channel, *grid = right.axes[1].parts[0]
    assert grid == [4, 4]
    wrong = Param("5.weight", (right.axes[0], (*grid, channel)), "weight", reads=1)
    other = Spec(spec.groups.values(), [wrong if p.name == wrong.name else p for p in spec.params.values()])
    assert_function_preserved(model, x, spec)
    with pytest.raises(AssertionError, match="permuting Sequential changes its outputs: relative error"):
        assert_function_preserved(model, x, other)


# ------------------------------------------------------------------------------------------- directions and composition


def test_applying_is_indexing_and_the_matrix_agrees(spec, dtype):
    permutation, model = Permutation.random(spec), mlp(4, 5, 6, 2).to(dtype)
    idx, matrix = permutation.maps["0"], permutation.matrix("0").to(dtype)
    assert all(matrix[i, idx[i]] == 1 for i in range(5))
    after = permutation.apply(model).state_dict()
    assert torch.equal(after["0.weight"], model[0].weight[idx])
    assert torch.equal(after["0.weight"], matrix @ model[0].weight)
    assert torch.equal(after["2.weight"], model[2].weight[permutation.maps["2"]][:, idx])


@pytest.mark.parametrize("kinds", ["hard hard", "hard soft", "soft hard", "soft soft"])
def test_composition_applies_the_right_factor_first(spec, kinds):
    generator = torch.Generator().manual_seed(3)
    p, q = Permutation.random(spec, generator), Permutation.random(spec, generator)
    p, q = (softened(x) if kind == "soft" else x for x, kind in zip((p, q), kinds.split(), strict=True))
    tensors = mlp(4, 5, 6, 2).double().state_dict()
    one, two = (p @ q).apply(tensors), p.apply(q.apply(tensors))
    assert all(torch.equal(one[k], two[k]) for k in tensors)
    other = (q @ p).apply(tensors)
    assert not all(torch.equal(one[k], other[k]) for k in tensors)


def test_the_inverse_is_the_transpose(spec):
    p = Permutation.random(spec)
    assert torch.equal(p.inverse().matrix("2"), p.matrix("2").T)
    assert p.inverse() @ p == Permutation.identity(spec) == p @ p.inverse()
    assert p != Permutation.identity(spec)
    soft = Permutation.nearly(spec, {"0": torch.rand(5, 5)})
    assert torch.equal(soft.inverse().maps["0"], soft.maps["0"].T)


def test_groups_left_out_are_not_permuted(spec):
    p, q = Permutation(spec, {"0": torch.arange(5).roll(1)}), Permutation(spec, {"2": torch.arange(6).roll(2)})
    assert p @ q == Permutation(spec, {**p.maps, **q.maps})
    assert Permutation(spec, {}) == Permutation.identity(spec)


def test_composing_two_architectures_is_an_error(spec):
    other = Permutation.identity(trace(mlp(4, 7, 2)))
    with pytest.raises(ValueError, match="the two permutations have different architectures"):
        Permutation.identity(spec) @ other


# --------------------------------------------------------------------------------------------------------- the results


def test_a_new_module_is_returned_and_the_old_one_stays(spec):
    model = mlp(4, 5, 6, 2)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    model[0].weight.requires_grad_(False)
    permuted = Permutation.random(spec).apply(model)
    assert type(permuted) is nn.Sequential
    assert permuted.training
    assert not permuted[0].weight.requires_grad
    assert permuted[2].weight.requires_grad
    assert permuted[0].weight.is_leaf
    assert all(torch.equal(model.state_dict()[k], v) for k, v in before.items())
    assert not {p.data_ptr() for p in permuted.parameters()} & {p.data_ptr() for p in model.parameters()}


def test_module_state_dict_and_graph_agree():
    model = cnn()
    permutation = Permutation.random(trace(model))
    module, plain = permutation.apply(model).state_dict(), permutation.apply(model.state_dict())
    graph = permutation.apply(to_graph(model)).tensors
    assert module.keys() == plain.keys() == graph.keys()
    assert all(torch.equal(module[k], plain[k]) and torch.equal(module[k], graph[k]) for k in module)


def test_norm_parameters_and_running_statistics_move_along():
    model = cnn()
    permutation = Permutation.random(trace(model))
    idx, norm = permutation.maps["0"], permutation.apply(model)[1]
    for name in ("weight", "bias", "running_mean", "running_var"):
        assert torch.equal(getattr(norm, name), getattr(model[1], name)[idx])
    assert torch.equal(norm.num_batches_tracked, model[1].num_batches_tracked)


def test_tied_entries_stay_one_tensor():
    model = mlp(4, 5, 5, 5, 2)
    model[4].weight = model[2].weight
    spec = trace(model)
    for hard in (True, False):
        p = Permutation.random(spec) if hard else softened(Permutation.random(spec), torch.float32)
        for tied in (p.apply(to_graph(model)).tensors, p.apply(model.state_dict(keep_vars=True))):
            assert tied["2.weight"] is tied["4.weight"]
            assert tied["2.bias"] is not tied["4.bias"]


def test_equal_tensors_in_different_places_are_permuted_each_in_its_own_way():
    """One zero tensor that stands for two biases must not tie their layers."""
    spec, shared = trace(mlp(4, 5, 5, 2)), torch.arange(5.0)
    p = Permutation(spec, {"0": torch.arange(5).roll(1), "2": torch.arange(5).roll(2)})
    out = p.apply({**mlp(4, 5, 5, 2).state_dict(), "0.bias": shared, "2.bias": shared})
    assert torch.equal(out["0.bias"], shared.roll(1))
    assert torch.equal(out["2.bias"], shared.roll(2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_float_type_is_permuted_exactly(dtype):
    model = cnn().to(dtype)
    permutation = Permutation.random(trace(model))
    back = permutation.inverse().apply(permutation.apply(model))
    assert all(
        torch.equal(a, b) and a.dtype == b.dtype
        for a, b in zip(model.state_dict().values(), back.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize("layout", ["channels_last", "transposed"])
def test_weights_that_are_not_contiguous(layout):
    model = cnn()
    expected = Permutation.random(trace(model), torch.Generator().manual_seed(0)).apply(model).state_dict()
    if layout == "channels_last":
        model = model.to(memory_format=torch.channels_last)
    else:
        model[5].weight.data = model[5].weight.data.T.contiguous().T
    assert not all(p.is_contiguous() for p in model.parameters())
    got = Permutation.random(trace(model), torch.Generator().manual_seed(0)).apply(model).state_dict()
    assert all(torch.equal(expected[k], got[k]) for k in expected)


def test_meta_weights_are_permuted_in_shape():
    model = cnn().to("meta")
    permuted = Permutation.random(trace(model, torch.randn(2, 3, 8, 8, device="meta"))).apply(model)
    assert all(t.is_meta for t in permuted.state_dict().values())


def test_a_state_dict_of_another_architecture_is_refused(spec):
    with pytest.raises(KeyError, match="missing keys"):
        Permutation.identity(spec).apply(mlp(4, 5, 2).state_dict())
    with pytest.raises(ValueError, match=r"the two networks have different architectures: '0.weight' is"):
        Permutation.identity(spec).apply(to_graph(mlp(4, 7, 6, 2)))


# ---------------------------------------------------------------------------------------------------------------- soft


def test_a_soft_permutation_matrix_equals_the_hard_one(dtype):
    model = cnn().to(dtype)
    hard = Permutation.random(trace(model))
    soft = softened(hard, dtype)
    assert hard.hard
    assert not soft.hard
    a, b = hard.apply(model.state_dict()), soft.apply(model.state_dict())
    assert all(torch.equal(a[k], b[k]) for k in a)


def test_axes_of_several_groups_are_indexed_part_by_part():
    """Concatenated: one after the other; product: row-major. A soft map beside a hard one changes nothing."""
    spec = Spec([Group("a", 2), Group("b", 3)], [Param("w", (Axis((("a",), ("b", "a"), (2, "b"))),), "weight")])
    a, b = torch.tensor([1, 0]), torch.tensor([2, 0, 1])
    w = torch.arange(14.0)
    first, second, third = w[:2], w[2:8].view(3, 2), w[8:].view(2, 3)
    expected = torch.cat([first[a], second[b][:, a].flatten(), third[:, b].flatten()])
    both = Permutation(spec, {"a": a, "b": b})
    for soft in ((), ("a",), ("b",), ("a", "b")):
        maps = {name: both.matrix(name) if name in soft else m for name, m in both.maps.items()}
        assert torch.equal(Permutation(spec, maps).apply({"w": w})["w"], expected)


def test_gradients_reach_matrices_and_weights():
    graph = to_graph(cnn())
    maps = {g.name: torch.full((g.size, g.size), 1 / g.size, requires_grad=True) for g in graph.spec.free}
    out = Permutation(graph.spec, maps).apply(graph)
    sum(t.square().sum() for name, t in out.tensors.items() if t.is_floating_point()).backward()
    assert all(m.grad.abs().sum() > 0 for m in maps.values())
    assert graph.tensors["0.weight"].grad.abs().sum() > 0


def test_the_gradient_of_a_soft_permutation_is_right():
    spec = Spec([Group("a", 3), Group("b", 2)], [Param("w", (("a", 2), ("b", "a")), "weight", reads=1)])
    matrices = [torch.rand(n, n, dtype=torch.float64, requires_grad=True) for n in (3, 2)]
    w = torch.randn(6, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda a, b, w: Permutation.nearly(spec, {"a": a, "b": b}).apply({"w": w})["w"], (*matrices, w)
    )


def test_a_module_cannot_hold_soft_weights(spec):
    with pytest.raises(TypeError, match=r"apply to module.state_dict\(\) or to_graph\(module\)"):
        softened(Permutation.random(spec)).apply(mlp(4, 5, 6, 2))


# -------------------------------------------------------------------------------------------------------------- nested


def test_nested_groups_move_in_whole_runs_and_inside_them(nested):
    permutations = [Permutation.random(nested, torch.Generator().manual_seed(k)) for k in range(40)]
    for p in permutations:
        heads, dims = p.maps["heads"], p.maps["dims"].view(2, 3)
        assert torch.equal(dims // 3, heads[:, None].expand(2, 3))
    assert len({tuple(p.maps["dims"].tolist()) for p in permutations}) > 25  # of 2 · 6 · 6
    assert len({tuple(p.maps["heads"].tolist()) for p in permutations}) == 2


def test_nested_permutations_compose_and_invert(nested):
    p, q = (Permutation.random(nested, torch.Generator().manual_seed(k)) for k in (0, 5))
    tensors = {name: torch.randn(nested.shape(name)) for name in nested.params}
    one, two = (p @ q).apply(tensors), p.apply(q.apply(tensors))
    assert all(torch.equal(one[k], two[k]) for k in tensors)
    back = p.inverse().apply(p.apply(tensors))
    assert all(torch.equal(back[k], tensors[k]) for k in tensors)


def test_nested_permutations_preserve_a_function_that_has_them(nested):
    """Σ_h temperature_h · (heads of x): a sum over heads of an inner product within each."""
    tensors = {name: torch.randn(nested.shape(name), dtype=torch.float64) for name in nested.params}
    x = torch.randn(4, dtype=torch.float64)

    def network(t):
        heads = (t["q"] @ x).view(2, 3)
        return t["o"] @ (heads.softmax(-1) * t["temperature"][:, None]).flatten()

    p = Permutation.random(nested, torch.Generator().manual_seed(1))
    assert not torch.equal(p.maps["heads"], torch.arange(2))
    torch.testing.assert_close(network(p.apply(tensors)), network(tensors))


@pytest.mark.parametrize(
    "maps",
    [
        {"dims": torch.tensor([3, 1, 2, 0, 4, 5])},  # mixes heads
        {"dims": torch.tensor([3, 4, 5, 0, 1, 2])},  # heads move, but their own axis does not
        {"heads": torch.tensor([1, 0])},  # heads move and leave their dimensions behind
        {"heads": torch.tensor([1, 0]), "dims": torch.arange(6)},
    ],
)
def test_nested_groups_must_move_with_their_parents(nested, maps):
    with pytest.raises(ValueError, match="group 'dims' must move with the group it is nested in, 'heads'"):
        Permutation(nested, maps)


def test_a_free_group_nested_in_a_pinned_one_moves_inside_its_runs():
    spec = Spec([Group("groups", 2, why="norm groups"), Group("channels", 6, parent="groups")], [])
    maps = [Permutation.random(spec, torch.Generator().manual_seed(k)).maps["channels"] for k in range(20)]
    assert all(torch.equal(m.view(2, 3) // 3, torch.tensor([[0] * 3, [1] * 3])) for m in maps)
    assert len({tuple(m.tolist()) for m in maps}) > 5


# ---------------------------------------------------------------------------------------------------------- validation


@pytest.mark.parametrize(
    ("maps", "kind", "message"),
    [
        ({"9": torch.arange(5)}, KeyError, r"no group '9', expected one of \['0', '2'\]"),
        ({"0": torch.arange(4)}, ValueError, r"group '0' has 5 elements, expected an index tensor \[5\] or a matrix"),
        ({"0": torch.zeros(5, 4)}, ValueError, r"got \(5, 4\)"),
        ({"0": torch.tensor([0, 1, 2, 3, 3])}, ValueError, "is not a permutation of 0…4"),
        ({"0": torch.rand(5)}, ValueError, "is not a permutation of 0…4"),
        ({"input": torch.tensor([1, 0, 2, 3])}, ValueError, r"group 'input' is pinned \(network input\)"),
        ({"input": torch.full((4, 4), 0.25)}, ValueError, r"group 'input' is pinned \(network input\)"),
    ],
)
def test_bad_maps_are_refused(spec, maps, kind, message):
    with pytest.raises(kind, match=message):
        Permutation(spec, maps)


def test_a_pinned_group_may_be_given_its_identity(spec):
    assert Permutation(spec, {"input": torch.arange(4)}) == Permutation(spec, {"output": torch.eye(2)})


def test_small_integers_are_indices_too(spec):
    p = Permutation(spec, {"0": torch.arange(5, dtype=torch.int32).flip(0)})
    assert p.inverse() @ p == Permutation.identity(spec)


def test_random_permutations_are_seeded_and_uniform(spec):
    draw = [Permutation.random(spec, torch.Generator().manual_seed(7)) for _ in range(2)]
    assert draw[0] == draw[1]
    small = trace(mlp(2, 3, 2))
    generator = torch.Generator().manual_seed(0)
    seen = [tuple(Permutation.random(small, generator).maps["0"].tolist()) for _ in range(600)]
    counts = [seen.count(p) for p in set(seen)]
    assert len(counts) == 6
    assert min(counts) > 60


def test_printed_form(spec):
    assert repr(Permutation.identity(spec)) == "Permutation(2 groups, 0 of 11 neurons moved)"
    assert repr(Permutation(spec, {"0": torch.eye(5)})) == "Permutation(1 group, soft)"


# --------------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("soft", [False, True])
def test_saved_permutations_come_back(spec, soft, tmp_path):
    p = Permutation.random(spec)
    p = softened(p, torch.float32) if soft else p
    p.save(tmp_path / "p.safetensors")
    assert Permutation.load(tmp_path / "p.safetensors", spec) == p


def test_loading_against_another_architecture_is_refused(spec, tmp_path):
    Permutation.random(spec).save(tmp_path / "p")
    with pytest.raises(
        ValueError, match=r"holds a permutation of another architecture.*its groups are \{'0': 5, '2': 6\}"
    ):
        Permutation.load(tmp_path / "p", trace(mlp(4, 5, 2)))


def test_loading_groups_that_there_are_not_is_refused(spec, tmp_path):
    meta = {"kind": "wsgraph.Permutation", "spec": spec.fingerprint}
    save_tensors({"nowhere": torch.arange(3), "0": torch.tensor(1)}, tmp_path / "p", meta)
    with pytest.raises(ValueError, match=r"of another architecture.*its groups are \{'0': 0, 'nowhere': 3\}"):
        Permutation.load(tmp_path / "p", spec)


def test_loading_a_truncated_file_is_refused(spec, tmp_path):
    Permutation.random(spec).save(tmp_path / "p")
    (tmp_path / "p").write_bytes((tmp_path / "p").read_bytes()[:-8])
    with pytest.raises(ValueError, match="It may be truncated"):
        Permutation.load(tmp_path / "p", spec)


def test_moved_to_a_device(spec):
    assert all(m.is_meta for m in Permutation.identity(spec).to("meta").maps.values())


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (torch.full((5, 5), 0.4), r"'0' is not doubly stochastic: .* off 1 by 1. Normalise rows and columns in turns"),
        (torch.full((5, 5), 0.1), r"'0' is not doubly stochastic: .* off 1 by 0.5"),
        (torch.eye(5)[[0, 0, 2, 3, 4]], r"'0' is not doubly stochastic: .* off 1 by 1"),
        (1.5 * torch.eye(5) - 0.1, r"its least entry is -0.1 \(expected 0 or more\)"),
        (torch.full((5, 5), float("nan")), "'0' holds 25 NaN or infinite values of 25, expected a doubly stochastic"),
    ],
)
def test_soft_maps_that_are_none(spec, matrix, message):
    with pytest.raises(ValueError, match=message):
        Permutation(spec, {"0": matrix})


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_soft_maps_of_any_precision(spec, dtype):
    mixed = 0.7 * torch.eye(5) + 0.2 * torch.eye(5)[[1, 2, 3, 4, 0]] + 0.1 * torch.eye(5)[[4, 2, 0, 1, 3]]
    assert not Permutation(spec, {"0": mixed.to(dtype)}).hard


def test_what_comes_near_stays_so(spec, tmp_path):
    near = Permutation.nearly(spec, {"0": torch.eye(5) + 0.02})
    for other in (near.inverse(), near @ near, near.to("cpu")):
        assert not other.hard
    near.save(tmp_path / "near.safetensors")
    assert Permutation.load(tmp_path / "near.safetensors", spec) == near
    Permutation.nearly(spec, {"0": torch.full((5, 5), float("nan"))}).save(tmp_path / "nan.safetensors")
    with pytest.raises(ValueError, match="'0' holds 25 NaN"):
        Permutation.load(tmp_path / "nan.safetensors", spec)
    with pytest.raises(ValueError, match=r"a matrix \[5, 5\], got \(4, 4\)"):
        Permutation.nearly(spec, {"0": torch.eye(4)})
