"""Parameters as dense views between groups."""

import torch

from wsgraph import Group, Param, Spec, to_graph
from wsgraph.nn.message import DenseEdges, RunEdges

SPEC = Spec(
    [
        Group("input", 5, "network input"),
        Group("runs", 2),
        Group("heads", 4, parent="runs"),
        Group("dims", 6, parent="runs"),
        Group("written", 8, parent="runs"),
        Group("stream", 3),
    ],
    [
        Param("fused", (("heads", "/dims"), "input"), "weight", reads=1),
        Param("grouped", ("written", "/dims", 3, 3), "weight", reads=1),
        Param("bias", (("heads", "/dims"),), "bias"),
        Param("out", ("stream", "written"), "weight", reads=1),
    ],
)


def blocks(param):
    return {(b.target, b.source): b for b in SPEC.blocks if b.param == param}


def test_three_groups_give_a_block_for_each_pair_with_the_mean_over_the_third():
    w = torch.randn(SPEC.shape("fused"))  # 2 runs × 2 heads × 3 dims
    found = blocks("fused")
    grid = w.view(2, 2, 3, 5)
    torch.testing.assert_close(found["heads", "input"].view(w)[..., 0], grid.mean(2).reshape(4, 5))
    torch.testing.assert_close(found["dims", "input"].view(w)[..., 0], grid.mean(1).reshape(6, 5))


def test_one_axis_of_two_groups_is_a_feature_of_both():
    b = torch.randn(12)
    found = blocks("bias")
    torch.testing.assert_close(found["heads", None].view(b)[:, 0], b.view(2, 2, 3).mean(2).flatten())
    torch.testing.assert_close(found["dims", None].view(b)[:, 0], b.view(2, 2, 3).mean(1).flatten())


def test_a_grouped_convolution_joins_neurons_of_one_run():
    w = torch.randn(SPEC.shape("grouped"))
    block = blocks("grouped")["written", "dims"]
    assert block.runs == 2
    assert torch.equal(block.view(w), w.view(2, 4, 3, 9))


def test_messages_inside_runs_are_those_of_a_block_diagonal_matrix():
    taps, basis, mix = torch.randn(2, 4, 3, 9), torch.eye(9), torch.randn(9, 7, 6)
    dense = torch.zeros(8, 6, 9)
    for run in range(2):
        dense[4 * run : 4 * run + 4, 3 * run : 3 * run + 3] = taps[run]
    read, written = torch.randn(6, 7), torch.randn(8, 7)
    torch.testing.assert_close(RunEdges(taps, basis).forward(read, mix), DenseEdges(dense, basis).forward(read, mix))
    torch.testing.assert_close(
        RunEdges(taps, basis).backward(written, mix), DenseEdges(dense, basis).backward(written, mix)
    )


def test_rows_hold_all_weights_of_an_element():
    w = torch.randn(SPEC.shape("grouped"))
    piece = next(p for p in SPEC.pieces if p.param == "grouped")
    written, dims = piece.places
    assert torch.equal(piece.rows(w, written), w.flatten(1))
    assert torch.equal(piece.rows(w, dims), w.view(2, 4, 3, 9).permute(0, 2, 1, 3).reshape(6, 36))


def test_edges_of_the_graph_and_of_networkx_stay_inside_runs():
    graph = to_graph({name: torch.randn(SPEC.shape(name)) for name in SPEC.params}, spec=SPEC)
    first = graph.offsets
    inside = [
        (int(s) - first["dims"], int(t) - first["written"])
        for s, t in graph.edge_index.T
        if first["written"] <= t < first["stream"] and s < first["written"]
    ]
    assert len(inside) == 2 * 4 * 3
    assert all(s // 3 == t // 4 for s, t in inside)
    joined = [(s, t) for s, t, param in graph.to_networkx().edges(data="param") if param == "grouped"]
    assert sorted(joined) == sorted((s + first["dims"], t + first["written"]) for s, t in inside)
