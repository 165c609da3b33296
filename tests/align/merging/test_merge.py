import pytest
import torch
from networks import Net, cnn, mlp
from safetensors.torch import save_file
from torch import nn

import align
from wsgraph import Permutation, to_graph, trace
from wsgraph.rescale import random_factors, rescale


def close(a, b):
    for (name, x), y in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
        torch.testing.assert_close(x, y, msg=name)


def test_state_dicts_and_files_are_averaged_as_modules_are(pair, tmp_path):
    a, b, _ = pair
    alignment = align.match(a, b, "weight_matching")
    expected = align.merge(a, b, alignment=alignment, weights=(1, 3), scale=True).state_dict()
    paths = [tmp_path / f"{name}.safetensors" for name in "ab"]
    for path, model in zip(paths, (a, b), strict=True):
        save_file(model.state_dict(), path)
    for networks in ([a.state_dict(), b.state_dict()], paths, [str(path) for path in paths]):
        merged = align.merge(*networks, alignment=alignment, weights=(1, 3), scale=True)
        assert merged.keys() == expected.keys()
        torch.testing.assert_close(merged, dict(expected))


def test_state_dicts_of_other_shapes_are_not_averaged():
    message = r"different architectures: '0.weight' is \(6, 4\) in one and \(5, 4\) in another"
    with pytest.raises(ValueError, match=message):
        align.merge(mlp(4, 6, 3).state_dict(), mlp(4, 5, 3).state_dict())


def test_average_by_hand():
    a, b, c = (mlp(3, 4, 2) for _ in range(3))
    merged = align.merge(a, b, c)
    for name, value in merged.state_dict().items():
        torch.testing.assert_close(value, sum(m.state_dict()[name] for m in (a, b, c)) / 3)


def test_weights_are_normalised():
    a, b = mlp(3, 4, 2), mlp(3, 4, 2)
    merged = align.merge(a, b, weights=[3, 1])
    torch.testing.assert_close(merged[0].weight, 0.75 * a[0].weight + 0.25 * b[0].weight)
    close(align.merge(a, b, weights=[1, 0]), a)
    close(align.merge(a, b, weights=[0, 5]), b)


def test_merging_a_permuted_copy_gives_the_network_back():
    a = cnn()
    g = Permutation.random(trace(a, torch.randn(2, 3, 8, 8)))
    b = g.apply(a)
    found = align.match(a, b, example_input=torch.randn(2, 3, 8, 8), seed=0)
    close(align.merge(a, b, alignment=found), a)
    close(align.merge(a, found.apply(b)), a)


def test_one_alignment_per_further_model():
    a = mlp(3, 6, 2)
    spec = trace(a)
    copies = [Permutation.random(spec).apply(a) for _ in range(3)]
    merged = align.merge(a, *copies, alignment=[align.match(a, c, seed=0) for c in copies], weights=[1, 2, 3, 4])
    close(merged, a)


def test_inputs_are_untouched_and_the_mode_of_the_first_is_kept():
    a, b = (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)) for _ in range(2))
    a[1].num_batches_tracked += 7
    a[1].eval()
    before = [{k: t.clone() for k, t in m.state_dict().items()} for m in (a, b)]
    for repair in ("none", "batchnorm", "repair"):
        merged = align.merge(a, b, repair=repair, data=torch.randn(20, 3))
        assert [m.training for m in merged.modules()] == [True, True, False, True, True]
        assert [m.training for m in a.modules()] == [True, True, False, True, True]
        assert merged[1].momentum == a[1].momentum
        merged[0].weight.data.zero_()
        merged[1].running_mean.zero_()
        merged[1].num_batches_tracked.add_(100)
    for model, old in zip((a, b), before, strict=True):
        assert all(torch.equal(t, old[k]) for k, t in model.state_dict().items())


def test_dtypes_and_ties_are_kept():
    def make():
        model = Net(lambda m, x: m.b(torch.relu(m.a(x))), a=nn.Linear(4, 4), b=nn.Linear(4, 4)).to(torch.bfloat16)
        model.b.weight = model.a.weight
        return model

    a, b = make(), make()
    for repair in ("none", "repair"):
        merged = align.merge(a, b, repair=repair, data=torch.randn(64, 4))
        assert merged.a.weight is merged.b.weight
        assert merged.a.weight.dtype == torch.bfloat16
    half = (a.a.weight.double() + b.a.weight.double()) / 2
    torch.testing.assert_close(align.merge(a, b).a.weight, half.bfloat16())


@pytest.mark.parametrize("aligned", [False, True])
def test_scales_are_matched_before_averaging(aligned):
    a = mlp(4, 7, 6, 3)
    graph = to_graph(a)
    scaled = graph.replace(rescale(graph.tensors, graph.spec, random_factors(graph.spec, 0.1, 10)))
    g = Permutation.random(graph.spec) if aligned else Permutation.identity(graph.spec)
    b = g.apply(scaled).to_module(a)
    alignment = align.Alignment(graph, to_graph(b), maps=g.inverse().maps) if aligned else None
    x = torch.randn(50, 4)
    torch.testing.assert_close(b(x), a(x), atol=1e-4, rtol=1e-4)
    merged = align.merge(a, b, alignment=alignment, scale=True)
    torch.testing.assert_close(merged(x), a(x), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(align.merge(a, b, alignment=alignment)(x), a(x), atol=1e-2)


def test_errors():
    a, b = mlp(3, 4, 2), mlp(3, 4, 2)
    with pytest.raises(ValueError, match="at least two models, got 1"):
        align.merge(a)
    with pytest.raises(ValueError, match="repair 'bn' is not one of"):
        align.merge(a, b, repair="bn")
    with pytest.raises(ValueError, match="repair='repair' measures activations: pass data=inputs"):
        align.merge(a, b, repair="repair")
    with pytest.raises(ValueError, match=r"2 models need 2 weights with a sum other than 0, got \[1\]"):
        align.merge(a, b, weights=[1])
    with pytest.raises(ValueError, match="sum other than 0"):
        align.merge(a, b, weights=[1, -1])
    with pytest.raises(ValueError, match="2 networks to align need as many alignments, got 1"):
        align.merge(a, b, b, alignment=align.match(a, b, "identity"))
    with pytest.raises(ValueError, match=r"different architectures: '0.weight' is \(4, 3\) in one and \(5, 3\)"):
        align.merge(a, mlp(3, 5, 2))


@pytest.mark.parametrize("repair", ["none", "batchnorm", "repair"])
def test_the_average_is_a_network_of_its_own(repair):
    """No hook of the first network, none of its unsaved buffers; and measuring runs none of the given ones."""
    a, b, noticed = mlp(3, 4, 2), mlp(3, 4, 2), []
    for model in (a, b):
        model.register_buffer("scale", torch.ones(2), persistent=False)
        model[0].register_forward_hook(lambda *_: noticed.append("call"))
    merged = align.merge(a, b, repair=repair, data=torch.randn(20, 3))
    merged(torch.randn(2, 3))
    merged.scale.zero_()
    assert bool(a.scale.all())
    assert noticed == []


@pytest.fixture(scope="module")
def widths():
    """A narrow and a wide network, and inputs."""
    torch.manual_seed(0)
    return mlp(6, 5, 4, 3).double(), mlp(6, 9, 7, 3).double(), torch.randn(200, 6).double()


METHODS = ("auto", "weight_matching", "covariance_matching", "activation_matching", "deep_align")


@pytest.mark.parametrize("method", METHODS)
def test_all_methods_match_every_neuron_of_the_narrower_layer(method, widths):
    narrow, wide, x = widths
    data = {"data": x} if method == "activation_matching" else {}
    down, up = align.match(narrow, wide, method, **data), align.match(wide, narrow, method, **data)
    assert [len(pairs) for pairs in down.pairs.values()] == [5, 4]
    assert [len(pairs) for pairs in up.pairs.values()] == [5, 4]
    for group, index in down.maps.items():
        assert torch.equal(up.maps[group][index], torch.arange(len(index)))


def test_a_planted_part_of_a_wide_network_is_found(widths):
    _, wide, _ = widths
    chosen = {"0": torch.tensor([7, 1, 4, 0, 2]), "2": torch.tensor([3, 6, 0, 2])}
    narrow = mlp(6, 5, 4, 3).double()
    with torch.no_grad():
        for k, rows, columns in (
            (0, chosen["0"], slice(None)),
            (2, chosen["2"], chosen["0"]),
            (4, slice(None), chosen["2"]),
        ):
            narrow[k].weight.copy_(wide[k].weight[rows][:, columns])
            narrow[k].bias.copy_(wide[k].bias[rows])
    found = align.match(narrow, wide, "weight_matching")
    assert {g: m.tolist() for g, m in found.maps.items()} == {g: m.tolist() for g, m in chosen.items()}
    cut = align.merge(narrow, wide, alignment=found, weights=(0, 1))
    assert all(torch.equal(x, y) for x, y in zip(cut.state_dict().values(), narrow.state_dict().values(), strict=True))
    with pytest.raises(ValueError, match="different widths, where weight matching starts from scratch: pass no init"):
        align.match(narrow, wide, "weight_matching+weight_matching")


def test_a_narrow_network_in_the_size_of_a_wide_one_computes_the_same(widths):
    narrow, wide, x = widths
    found = align.match(wide, narrow, "weight_matching")
    alone = align.merge(wide, narrow, alignment=found, weights=(0, 1))
    torch.testing.assert_close(alone(x), narrow(x))
    both = align.merge(wide, narrow, alignment=found)
    assert both[0].weight.shape == (9, 6)
    bare = align.merge(wide.state_dict(), narrow.state_dict(), alignment=found)
    torch.testing.assert_close(bare, dict(both.state_dict()))


def test_repair_of_a_cut_network_restores_means_and_deviations(widths):
    narrow, wide, x = widths
    found = align.match(narrow, wide, "weight_matching")
    cut = align.merge(narrow, wide, alignment=found, weights=(0, 1), repair="repair", data=x)
    with torch.no_grad():
        torch.testing.assert_close(cut(x).mean(0), wide(x).mean(0), rtol=0, atol=1e-2)
        torch.testing.assert_close(cut(x).std(0), wide(x).std(0), rtol=1e-2, atol=0)
        inner, own = cut[:3](x), wide[:3](x)[:, found.maps["2"]]
    torch.testing.assert_close(inner.mean(0), own.mean(0), rtol=0, atol=1e-2)
    scaled = align.merge(wide, narrow, alignment=align.match(wide, narrow, "weight_matching"), scale=True)
    assert scaled[0].weight.shape == (9, 6)
