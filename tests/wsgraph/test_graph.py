import copy
import pickle

import networkx
import pytest
import torch
from networks import Net, cnn, mlp, vgg
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch_geometric import transforms
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GINEConv

from wsgraph import Axis, Group, Param, Permutation, Spec, WeightGraph, to_graph, trace
from wsgraph.network import NODE_ROLES
from wsgraph.testing import node_index, random_graph

LAZY = ("x", "pos", "group", "edge_index", "edge_attr")


def unbuilt(graph):
    return {k for k in LAZY if k not in graph._store._mapping}


@pytest.fixture
def graph():
    return to_graph(cnn())


class Allocations(TorchDispatchMode):
    """Counts the bytes of all tensors created inside, views excepted."""

    def __init__(self):
        super().__init__()
        self.seen, self.bytes = set(), 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        known = {t.untyped_storage().data_ptr() for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr() not in known:
                self.bytes += tensor.untyped_storage().nbytes()
        return out


# --------------------------------------------------------------------------------------------------------------- fields


def test_nodes_are_the_elements_of_all_groups(graph):
    assert isinstance(graph, Data)
    assert graph.num_nodes == 3 + 6 + 5 + 2
    assert graph.group.bincount().tolist() == [3, 6, 5, 2]
    assert graph.offsets == {"input": 0, "0": 3, "5": 9, "output": 14}


def test_one_axis_parameters_are_node_features(graph):
    model = cnn()
    graph = to_graph(model)
    hidden = graph.x[3:9]
    columns = {
        "bias": model[0].bias,
        "norm_scale": model[1].weight,
        "norm_shift": model[1].bias,
        "mean": model[1].running_mean,
        "variance": model[1].running_var,
    }
    for role, values in columns.items():
        assert torch.equal(hidden[:, NODE_ROLES.index(role)], values)
    assert graph.x.shape == (16, len(NODE_ROLES))
    assert graph.x[:3].eq(0).all()


def test_pinned_nodes_have_coordinates_and_hidden_ones_none():
    graph = to_graph(nn.Sequential(nn.Flatten(), *mlp(48, 5, 2)))
    grid = graph.pos[:48].view(3, 4, 4, 3)
    assert grid[2, 1, 3].tolist() == [2, 1, 3]
    assert graph.pos[48:53].eq(0).all()
    assert graph.pos[53:, 0].tolist() == [0, 1]


def test_edges_are_the_weights_of_linear_layers(dtype):
    model = mlp(4, 5, 2).to(dtype)
    graph = to_graph(model)
    dense = torch.zeros(11, 11, dtype=dtype)
    dense[graph.edge_index[0], graph.edge_index[1]] = graph.edge_attr[:, 0]
    assert torch.equal(dense[:4, 4:9], model[0].weight.T)
    assert torch.equal(dense[4:9, 9:], model[2].weight.T)
    assert graph.num_edges == 30
    assert graph.edge_attr[:, 1:].eq(0).all()


def test_running_the_network_by_message_passing():
    """Σ over incoming edges plus bias is the layer itself."""
    model, x = mlp(4, 5, 2).double(), torch.randn(4, dtype=torch.float64)
    graph = to_graph(model)
    source, target = graph.edge_index
    h = torch.cat([x, torch.zeros(7, dtype=torch.float64)])
    for start, end in ((4, 9), (9, 11)):
        received = (
            torch.zeros(11, dtype=torch.float64).index_add(0, target, graph.edge_attr[:, 0] * h[source]) + graph.x[:, 0]
        )
        h[start:end] = received[start:end].relu() if end == 9 else received[start:end]
    torch.testing.assert_close(h[9:], model(x))


def test_depthwise_kernels_are_edges_of_a_node_to_itself():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 3, groups=4), nn.ReLU(), nn.Conv2d(4, 2, 1))
    graph = to_graph(model)
    loops = graph.edge_index[0] == graph.edge_index[1]
    assert graph.edge_index[0, loops].tolist() == [3, 4, 5, 6]
    assert torch.allclose(graph.edge_attr[loops].square().sum(1), model[1].weight.square().sum((1, 2, 3)))


def test_permuting_a_network_renumbers_its_nodes():
    graph = random_graph(3)
    permutation = Permutation.random(graph.spec)
    index, permuted = node_index(permutation), permutation.apply(graph)
    assert torch.equal(permuted.x, graph.x[index])

    def edges(g, rename):
        rows = torch.cat([rename[g.edge_index].T.double(), g.edge_attr], 1).round(decimals=9)
        return sorted(map(tuple, rows.tolist()))

    assert edges(permuted, index) == edges(graph, torch.arange(graph.num_nodes))


def test_blocks_of_a_hand_written_concatenation():
    spec = Spec(
        [Group("a", 2), Group("b", 3), Group("output", 2, why="network output")],
        [Param("w", ("output", Axis((("a",), ("b",)))), "weight", reads=1)],
    )
    graph = to_graph({"w": torch.arange(10.0).view(2, 5)}, spec=spec)
    assert [(block.source, view.shape) for block, view in graph.blocks] == [("a", (2, 2, 1)), ("b", (2, 3, 1))]
    assert graph.edge_index.tolist() == [[0, 1, 0, 1, 2, 3, 4, 2, 3, 4], [5, 5, 6, 6, 5, 5, 5, 6, 6, 6]]
    assert graph.edge_attr[:, 0].tolist() == [0, 1, 5, 6, 2, 3, 4, 7, 8, 9]


# -------------------------------------------------------------------------------------------------- laziness and memory


def test_nothing_is_built_before_somebody_looks():
    graph = to_graph(cnn())
    repr(graph)
    moved = copy.copy(graph.to("cpu").clone())
    assert unbuilt(graph) == unbuilt(moved) == set(LAZY)
    assert graph.x.shape[0] == 16
    assert unbuilt(graph) == {"edge_index", "edge_attr"}
    assert graph.num_edges > 0
    assert unbuilt(graph) == set()


def test_lazy_fields_count_as_present(graph):
    assert all(key in graph for key in LAZY)
    assert set(LAZY) <= set(graph.keys())
    assert unbuilt(graph) == set(LAZY)
    assert set(LAZY) <= set(graph.to_dict())


def test_blocks_share_memory_with_the_weights():
    model = cnn()
    graph = to_graph(model)
    storages = {t.untyped_storage().data_ptr() for t in model.state_dict().values()}
    assert len(graph.blocks) == 10
    assert all(view.untyped_storage().data_ptr() in storages for _, view in graph.blocks)
    model[0].weight.data.zero_()
    assert graph.blocks[0][1].eq(0).all()


def test_the_graph_of_vgg16_allocates_less_than_a_tenth_of_its_weights():
    model = vgg((2, 2, 3, 3, 3), (64, 128, 256, 512, 512), norm=False)
    spec = trace(model, verify=False)
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    assert weights > 4 * 15_000_000
    with Allocations() as allocations:
        graph = to_graph(model, spec=spec, verify=False)
        views = [view for _, view in graph.blocks]
    assert allocations.bytes < 0.1 * weights
    storages = {p.untyped_storage().data_ptr() for p in model.parameters()}
    assert {v.untyped_storage().data_ptr() for v in views} == storages


def test_gradients_flow_from_the_graph_to_the_model():
    model = cnn()
    graph = to_graph(model)
    (graph.x.square().sum() + graph.edge_attr.square().sum()).backward()
    assert all(p.grad.abs().sum() > 0 for p in model.parameters())


# ---------------------------------------------------------------------------------------------------------- round trips


def test_to_state_dict_and_to_module_are_exact_inverses(graph):
    other = cnn()
    restored = graph.to_module(other)
    assert list(graph.to_state_dict()) == list(other.state_dict())
    assert all(torch.equal(v, graph.to_state_dict()[k]) for k, v in restored.state_dict().items())
    assert not {t.data_ptr() for t in restored.parameters()} & {t.data_ptr() for t in graph.tensors.values()}
    again = to_graph(graph.to_state_dict(), spec=graph.spec)
    assert torch.equal(again.edge_attr, graph.edge_attr)


def test_to_module_refuses_another_architecture(graph):
    with pytest.raises(KeyError, match="missing keys"):
        graph.to_module(mlp(4, 5, 2))


def test_tied_weights_stay_tied():
    model = mlp(5, 5, 5)
    model[2].weight = model[0].weight
    clone = to_graph(model).clone()
    assert clone.tensors["0.weight"] is clone.tensors["2.weight"]
    module = clone.to_module(model)
    assert module[0].weight is module[2].weight


@pytest.mark.parametrize("build", [False, True])
@pytest.mark.parametrize(
    "way", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)), lambda g: g.clone()]
)
def test_copies(way, build):
    graph = to_graph(mlp(4, 5, 2).requires_grad_(False))
    if build:
        graph.edge_index  # noqa: B018
    other = way(graph)
    assert isinstance(other, WeightGraph)
    assert unbuilt(other) == unbuilt(graph)
    assert other.spec == graph.spec
    assert torch.equal(other.edge_attr, graph.edge_attr)
    assert torch.equal(other.x, graph.x)


def test_dropped_fields_stay_dropped_in_this_copy_only(graph):
    other, third = copy.copy(graph), copy.copy(graph)
    del other.edge_attr
    third.edge_attr = None
    for dropped in (other, third):
        assert "edge_attr" not in dropped
        assert dropped.edge_attr is None
    assert graph.edge_attr is not None
    third.edge_attr = graph.edge_attr
    assert "edge_attr" in third


def test_moving_to_a_device(graph):
    edges = graph.num_edges
    moved = to_graph(cnn()).to("meta")
    assert all(t.is_meta for t in moved.tensors.values())
    assert moved.x.is_meta
    assert moved.edge_index.is_meta
    assert moved.edge_index.shape == (2, edges)
    assert graph.to("meta").edge_attr.is_meta


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_float_type(dtype):
    graph = to_graph(cnn().to(dtype))
    assert graph.x.dtype == graph.edge_attr.dtype == dtype
    assert all(view.dtype == dtype for _, view in graph.blocks)


def test_a_network_on_the_meta_device():
    graph = to_graph(cnn().to("meta"), torch.empty(2, 3, 8, 8, device="meta"))
    assert graph.edge_attr.is_meta
    assert graph.edge_attr.shape == (to_graph(cnn()).num_edges, 9)


def test_weights_that_are_not_contiguous():
    model = cnn()
    expected = to_graph(model).edge_attr
    model = model.to(memory_format=torch.channels_last)
    model[5].weight.data = model[5].weight.data.T.contiguous().T
    graph = to_graph(model)
    storages = {p.untyped_storage().data_ptr() for p in model.parameters()}
    torch.testing.assert_close(graph.edge_attr, expected)
    assert all(view.untyped_storage().data_ptr() in storages for b, view in graph.blocks if b.source is not None)


# ------------------------------------------------------------------------------------------------------------------ PyG


@pytest.fixture(scope="module")
def mixed():
    return [to_graph(cnn()), to_graph(mlp(4, 5, 2)), to_graph(mlp(3, 2)), to_graph(mlp(4, 5, 2))]


def same(a, b):
    return all(torch.equal(getattr(a, key), getattr(b, key)) for key in LAZY)


def test_a_batch_of_different_architectures(mixed):
    batch = Batch.from_data_list(mixed)
    nodes, edges = [g.num_nodes for g in mixed], [g.num_edges for g in mixed]
    assert batch.num_graphs == 4
    assert batch.num_nodes == sum(nodes)
    assert batch.batch.bincount().tolist() == nodes
    assert batch.edge_attr.shape[0] == batch.edge_index.shape[1] == sum(edges)
    start = 0
    for graph, part in zip(mixed, batch.edge_index.split(edges, 1), strict=True):
        assert torch.equal(part, graph.edge_index + start)
        start += graph.num_nodes


def test_every_graph_comes_back_out_of_a_batch(mixed):
    batch = Batch.from_data_list(mixed)
    for i, graph in enumerate(mixed):
        assert type(batch[i]) is WeightGraph
        assert batch[i].spec == graph.spec
        assert same(batch[i], graph)
        assert len(batch[i].blocks) == len(graph.blocks)
        for (block, view), (other, expected) in zip(batch[i].blocks, graph.blocks, strict=True):
            assert block == other
            assert torch.equal(view, expected)
    assert len(batch.to_data_list()) == 4


def test_a_batch_of_big_networks_need_not_build_edges(mixed):
    graphs = [to_graph(g.to_state_dict(), spec=g.spec) for g in mixed]
    batch = Batch.from_data_list(graphs, exclude_keys=["edge_index", "edge_attr"])
    assert all({"edge_index", "edge_attr"} <= unbuilt(g) for g in graphs)
    assert torch.equal(batch.edge_index, Batch.from_data_list(mixed).edge_index)
    assert batch[1].spec == mixed[1].spec


def test_a_batch_moves_as_one(mixed):
    batch = Batch.from_data_list([g.clone() for g in mixed]).to("meta")
    assert batch.x.is_meta
    assert all(t.is_meta for t in batch[1].tensors.values())


def test_what_one_graph_has_and_a_batch_has_not(mixed):
    with pytest.raises(TypeError, match=r"this is a batch of 4 networks; take one with batch\[i\]"):
        Batch.from_data_list(mixed).blocks  # noqa: B018
    with pytest.raises(TypeError, match=r"make one with wsgraph.to_graph\(model\)"):
        WeightGraph().spec  # noqa: B018


def test_data_loader(mixed):
    batches = list(DataLoader(mixed, batch_size=3))
    assert [b.num_graphs for b in batches] == [3, 1]
    assert same(batches[0][0], mixed[0])
    assert same(batches[1][0], mixed[3])


def test_transforms_work_on_unbuilt_graphs(mixed):
    fresh = to_graph(mixed[1].to_state_dict(), spec=mixed[1].spec)
    undirected = transforms.ToUndirected()(fresh)
    assert undirected.num_edges == 60
    assert undirected.is_undirected()
    assert undirected.edge_attr.shape == (60, 9)
    looped = transforms.AddSelfLoops(attr="edge_attr")(fresh)
    assert looped.num_edges == 30 + 11
    assert fresh.num_edges == 30


def test_replacing_the_edges_keeps_their_attributes_of_before(mixed):
    fresh = to_graph(mixed[1].to_state_dict(), spec=mixed[1].spec)
    fresh.edge_index = fresh.edge_index.flip(0)
    assert torch.equal(fresh.edge_attr, mixed[1].edge_attr)


@pytest.mark.parametrize("batched", [False, True])
def test_convolutions_of_pyg_run_on_it(mixed, batched):
    data = Batch.from_data_list(mixed) if batched else to_graph(mixed[0].to_state_dict(), spec=mixed[0].spec)
    gine = GINEConv(nn.Linear(7, 8), edge_dim=9)
    gat = GATConv(7, 8, edge_dim=9)
    for conv in (gine, gat):
        out = conv(data.x, data.edge_index, data.edge_attr)
        assert out.shape == (data.num_nodes, 8)
        assert out.isfinite().all()


def test_batched_and_single_convolutions_agree(mixed):
    conv = GINEConv(nn.Linear(7, 8), edge_dim=9)
    batch = Batch.from_data_list(mixed)
    together = conv(batch.x, batch.edge_index, batch.edge_attr)
    single = [conv(g.x, g.edge_index, g.edge_attr) for g in mixed]
    torch.testing.assert_close(together, torch.cat(single))


# ------------------------------------------------------------------------------------------------------------- networkx


def test_to_networkx_has_names_layers_and_weights():
    model = cnn().requires_grad_(False)
    out = to_graph(model).to_networkx()
    assert out.nodes[3] == {"name": "0[0]", "group": "0", "layer": 1, "pinned": False}
    assert out.number_of_nodes() == 16
    assert out.number_of_edges() == 3 * 6 + 6 * 5 + 5 * 2
    edge = out.edges[1, 4, 0]
    assert edge["param"] == "0.weight"
    assert edge["taps"] == pytest.approx(model[0].weight[1, 1].flatten().tolist())
    assert edge["weight"] == pytest.approx(float(model[0].weight[1, 1].sum()))
    assert networkx.is_directed_acyclic_graph(out)


def test_kernels_of_one_element_are_plain_weights():
    out = to_graph(nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 2, 1))).to_networkx()
    assert all(isinstance(w, float) for _, _, w in out.edges(data="weight"))


# --------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite(value):
    model = mlp(4, 5, 2)
    model[2].weight.data[1, 3] = value
    with pytest.raises(ValueError, match=r"'2.weight' holds 1 NaN or infinite values of 10: the network has diverged"):
        to_graph(model)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_large_weights_are_finite(dtype):
    """Their sum overflows, they do not."""
    model = mlp(4, 64, 2).to(dtype)
    model[0].weight.data.fill_(torch.finfo(dtype).max)
    assert to_graph(model, verify=False).num_nodes == 70


def test_a_state_dict_with_missing_and_extra_keys(graph):
    tensors = graph.to_state_dict()
    tensors["7.scale"] = tensors.pop("7.bias")
    with pytest.raises(KeyError, match=r"missing keys \['7.bias'\], unexpected keys \['7.scale'\]"):
        to_graph(tensors, spec=graph.spec)


def test_something_else_than_a_network():
    with pytest.raises(TypeError, match=r"to_graph expects an nn.Module, a state dict or a path, got int"):
        to_graph(3)


def test_a_checkpoint_that_is_not_a_state_dict():
    with pytest.raises(
        TypeError, match=r"'model' is of type OrderedDict, expected a tensor.*pass the state dict itself"
    ):
        to_graph({"model": mlp(4, 5, 2).state_dict(), "epoch": 3})


def test_two_networks_of_different_architecture():
    with pytest.raises(ValueError, match=r"'0.weight' is \(5, 4\) in the first and \(6, 4\) in the second"):
        to_graph(mlp(4, 5, 2)).spec.require_same(to_graph(mlp(4, 6, 2)).spec)


def test_replace_checks_the_tensors(graph):
    with pytest.raises(ValueError, match=r"'0.bias' has shape \(2,\), but the Spec expects \(6,\)"):
        graph.replace({**graph.tensors, "0.bias": torch.zeros(2)})


def test_printed_form(graph, mixed):
    assert repr(graph) == "WeightGraph(16 nodes in 4 groups, 690 weights)"
    assert repr(Batch.from_data_list(mixed)).startswith("WeightGraphBatch(4 networks, 43 nodes")
    assert repr(WeightGraph()) == "WeightGraph()"


def test_a_network_without_edges():
    graph = to_graph(Net(lambda m, x: m.n(x), n=nn.BatchNorm1d(4)), torch.randn(3, 4))
    assert graph.num_edges == 0
    assert graph.edge_attr.shape == (0, 9)
