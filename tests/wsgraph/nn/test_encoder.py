from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch_geometric.data import Batch

from wsgraph import Encoder, EncoderConfig, Permutation, to_graph
from wsgraph.graph import WeightGraph
from wsgraph.network import Network
from wsgraph.nn import encoder as encoder_module
from wsgraph.sparsity import DENSE_ABOVE, find_support
from wsgraph.testing import assert_equivariant, node_index, random_architecture, random_graph

SEEDS = st.integers(0, 60)


def small(dtype=torch.float64, **kwargs):
    torch.manual_seed(0)
    return Encoder(EncoderConfig(**{"hidden": 16, "output": 24, "messages": 16, "sweeps": 2} | kwargs)).to(dtype)


def mlp(*widths):
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


@given(SEEDS)
def test_equivariance_on_random_architectures(seed):
    assert_equivariant(small(), random_graph(seed))


@given(SEEDS)
def test_equivariance_in_float32(seed):
    assert_equivariant(small(torch.float32), random_graph(seed, torch.float32))


@pytest.mark.parametrize("kwargs", [{"normalise": False}, {"basis": 9}, {"activation": "relu"}, {"sweeps": 1}])
def test_equivariance_of_every_configuration(kwargs):
    assert_equivariant(small(**kwargs), random_graph(3))


def test_not_equivariant_to_uncoupled_permutations():
    """Shuffling rows of one weight alone is another network: the embeddings must differ by more than a permutation."""
    graph = to_graph(mlp(6, 8, 8, 3).double())
    encode = small()
    tensors = dict(graph.tensors)
    tensors["0.weight"] = tensors["0.weight"][torch.randperm(8)]
    changed, original = (encode(g).sort(dim=0).values for g in (graph.replace(tensors), graph))
    assert (changed - original).abs().max() > 1e-3


def test_hidden_nodes_are_told_apart_by_the_network_alone():
    model = mlp(6, 8, 3).double()
    for p in model.parameters():
        nn.init.constant_(p, 0.5)
    z = small(codes="grid")(to_graph(model))
    torch.testing.assert_close(z[6:14], z[6:7].expand(8, -1))
    assert (z[0] - z[1]).abs().max() > 1e-3  # inputs have places of their own
    z = small()(to_graph(model))
    torch.testing.assert_close(z[:6], z[:1].expand(6, -1))  # which no weight tells apart


def test_mixed_batch_equals_one_by_one():
    graphs = [random_graph(s) for s in (0, 1, 0, 2, 1)]
    encode = small()
    torch.testing.assert_close(encode(Batch.from_data_list(graphs)), torch.cat([encode(g) for g in graphs]))


def test_stacking_is_only_an_execution(monkeypatch):
    graphs = Batch.from_data_list([to_graph(mlp(5, 7, 3).double()) for _ in range(4)])
    encode = small()
    stacked = encode(graphs)
    monkeypatch.setattr(encoder_module, "STACKED", 0)
    torch.testing.assert_close(encode(graphs), stacked)


def pruned(model, keep):
    for p in model.parameters():
        if p.dim() > 1:
            with torch.no_grad():
                p.mul_(torch.rand_like(p) < keep)
    return model


def test_a_pruned_network_takes_listed_edges_and_gives_the_same_embeddings():
    model = pruned(mlp(20, 40, 40, 3).double(), 0.03)
    graph = to_graph(model)
    assert graph.network.support is not None
    assert graph.edge_index.shape[1] == sum(int((p != 0).sum()) for p in model.parameters() if p.dim() > 1)
    dense = WeightGraph(Network(graph.spec, graph.tensors))
    encode = small()
    sparse_z, dense_z = encode(graph), encode(dense)
    torch.testing.assert_close(sparse_z, dense_z)
    params = list(encode.parameters())
    grads = [torch.autograd.grad(z.square().sum(), params, allow_unused=True) for z in (sparse_z, dense_z)]
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_permuting_a_pruned_network_moves_its_edges():
    graph = to_graph(pruned(mlp(20, 40, 40, 3).double(), 0.03))
    permutation = Permutation.random(graph.spec)
    assert permutation.apply(graph).network.support is not None
    assert_equivariant(small(), graph)


def test_a_dense_network_has_no_list_of_edges():
    graph = to_graph(pruned(mlp(20, 40, 40, 3), 2 * DENSE_ABOVE))
    assert find_support(graph.spec, graph.tensors) is None


class PreNorm(nn.Module):
    """A residual stream whose norms stand in front of the layers, and one after everything."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.up, self.down = nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 9), nn.Linear(9, 6)
        self.last, self.gate, self.head = nn.LayerNorm(6), nn.Parameter(torch.rand(6)), nn.Linear(6, 2)

    def forward(self, x):
        x = self.embed(x)
        x = x + self.down(torch.relu(self.up(self.norm(x))))
        x = x + self.down(torch.relu(self.up(self.norm(x))))
        return self.head(self.last(x)), (x * self.gate).mean(-1)


def test_gradient_reaches_every_parameter():
    conv = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 5, 3, groups=5), nn.Flatten(), nn.Linear(80, 3))
    graphs = [
        to_graph(conv.double(), torch.randn(2, 3, 8, 8, dtype=torch.float64)),
        to_graph(PreNorm().double(), torch.randn(2, 4, dtype=torch.float64)),
    ]
    encode = small()
    encode(Batch.from_data_list(graphs)).square().sum().backward()
    for name, p in encode.named_parameters():
        assert p.grad is not None, name
        assert p.grad.abs().max() > 0, name


def test_norms_in_front_of_a_layer_are_seen():
    model = PreNorm().double()
    graph = to_graph(model, torch.randn(2, 4, dtype=torch.float64))
    encode = small()
    before = encode(graph)
    assert_equivariant(encode, graph)
    for name in ("norm.weight", "last.weight", "gate"):
        tensors = dict(graph.tensors)
        tensors[name] = tensors[name] + torch.rand(6, dtype=torch.float64)
        assert (encode(graph.replace(tensors)) - before).abs().max() > 1e-4, name


def test_parameters_know_no_architecture():
    encode = small(torch.float32)
    for seed in range(6):
        model, x = random_architecture(seed)
        graph = to_graph(model, x)
        assert encode(graph).shape == (graph.num_nodes, 24)


def test_default_size_is_under_half_a_million():
    assert sum(p.numel() for p in Encoder().parameters()) < 500_000


def test_checkpointing_changes_memory_not_gradients():
    graph = random_graph(3)
    grads = []
    for flag in (False, True):
        encode = small(checkpoint=flag)
        encode(graph).square().sum().backward()
        grads.append([p.grad for p in encode.parameters()])
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b)


def test_half_precision_networks_are_read_in_the_encoder_s_dtype():
    model = mlp(6, 8, 3)
    z = small(torch.float32)(to_graph(model.to(torch.bfloat16)))
    assert z.dtype == torch.float32
    assert torch.isfinite(z).all()


def test_inputs_may_be_given():
    graph = to_graph(mlp(6, 8, 3).double())
    encode, states = small(), torch.randn(6, 16, dtype=torch.float64)
    a, b = encode(graph), encode(graph, inputs={"input": states})
    assert (a - b).abs().max() > 1e-3
    index = node_index(permutation := Permutation.random(graph.spec))
    torch.testing.assert_close(encode(permutation.apply(graph), inputs={"input": states}), b[index])


def test_wrong_configuration_is_named():
    with pytest.raises(ValueError, match="activation 'swish' is not one of"):
        EncoderConfig(activation="swish")
    with pytest.raises(ValueError, match=r"EncoderConfig.sweeps is 0, expected at least 1"):
        EncoderConfig(sweeps=0)


@pytest.mark.parametrize("seed", [0, 3, 7])
def test_views_of_a_small_network_are_embedded_in_one_go_as_one_by_one(seed, monkeypatch):
    encoder, network = small(), random_graph(seed).network.map(lambda t: t.double() if t.is_floating_point() else t)
    codes = encoder.codes([[network]])
    views = [codes, {name: -c for name, c in codes.items()}, {name: c.flip(-1) for name, c in codes.items()}]
    runs, original = [], encoder._run
    monkeypatch.setattr(encoder, "_run", lambda *args: runs.append(args) or original(*args))
    at_once = encoder.embed_views([network], views)
    assert len(runs) == 1
    monkeypatch.setattr(encoder_module, "VIEWED", 0)
    for found, expected in zip(at_once, encoder.embed_views([network], views), strict=True):
        torch.testing.assert_close(found, expected)
    assert len(runs) == 1 + len(views)
