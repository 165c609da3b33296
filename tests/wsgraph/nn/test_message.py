"""Dense matrix products and listed edges are one definition."""

import pytest
import torch

from wsgraph.nn import segment
from wsgraph.nn.listed import ListedEdges
from wsgraph.nn.message import DenseEdges, OwnEdges
from wsgraph.taps import tap_basis

SHAPES = [((), 4), ((3, 3), 4), ((3, 3), 9), ((7, 7), 4), ((2,), 4)]


def random_block(taps, basis, density=0.3):
    weights = torch.randn(6, 5, max(1, torch.Size(taps).numel()), dtype=torch.float64)
    weights = weights * (torch.rand(6, 5, 1) < density)
    functions = tap_basis(taps, basis).to(weights)
    mask = (weights != 0).any(-1)
    index = mask.nonzero().T.flip(0)
    return weights.requires_grad_(), functions, index


def by_definition(weights, functions, h, mix):
    """Σ_b Σ_i w̃_jib A_b h_i, one einsum."""
    return torch.einsum("jit,tb,ic,bcm->jm", weights, functions, h, mix)


@pytest.mark.parametrize(("taps", "basis"), SHAPES)
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("listed", [False, True])
def test_messages_and_gradients_follow_the_definition(taps, basis, direction, listed):
    weights, functions, index = random_block(taps, basis)
    mix = torch.randn(basis, 4, 7, dtype=torch.float64, requires_grad=True)
    h = torch.randn(5 if direction == "forward" else 6, 4, dtype=torch.float64, requires_grad=True)
    expected = by_definition(weights if direction == "forward" else weights.transpose(0, 1), functions, h, mix)
    taps_of = weights[index[1], index[0]] if listed else weights
    edges = ListedEdges(index, taps_of, functions, (5, 6)) if listed else DenseEdges(weights, functions)
    got = getattr(edges, direction)(h, mix)
    torch.testing.assert_close(got, expected)
    grad = torch.randn_like(expected)
    inputs = (h, mix, weights)
    for ours, theirs in zip(
        torch.autograd.grad(got, inputs, grad), torch.autograd.grad(expected, inputs, grad), strict=True
    ):
        mask = (weights.detach() != 0).any(-1, keepdim=True)
        kept = mask if listed and ours.shape == weights.shape else torch.ones_like(ours, dtype=torch.bool)
        torch.testing.assert_close(ours * kept, theirs * kept)


@pytest.mark.parametrize("taps", [(), (3, 3)])
def test_depthwise_edges_connect_every_node_with_itself(taps):
    weights = torch.randn(6, max(1, torch.Size(taps).numel()), dtype=torch.float64)
    functions = tap_basis(taps, 4).to(weights)
    h, mix = torch.randn(6, 4, dtype=torch.float64), torch.randn(4, 4, 7, dtype=torch.float64)
    dense = torch.diag_embed(weights.T).permute(1, 2, 0)
    torch.testing.assert_close(OwnEdges(weights, functions).forward(h, mix), by_definition(dense, functions, h, mix))


def sorted_segments():
    index = torch.tensor([0, 0, 2, 2, 2, 4])
    values = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    expected = torch.zeros(6, 3, dtype=torch.float64).index_add(0, index, values)
    return values, index, expected


def test_native_segment_sum_fills_empty_segments_with_zero(monkeypatch):
    monkeypatch.setattr(segment, "segment_csr", None)
    values, index, expected = sorted_segments()
    torch.testing.assert_close(segment.segment_sum(values, index, 6), expected)


@pytest.mark.scatter
def test_torch_scatter_gives_the_native_sum_and_gradient():
    pytest.importorskip("torch_scatter", reason="the extra 'scatter' is not installed")
    assert segment.segment_csr is not None
    values, index, expected = sorted_segments()
    got = segment.segment_sum(values, index, 6)
    torch.testing.assert_close(got, expected)
    grad = torch.randn_like(expected)
    ours, theirs = (torch.autograd.grad(out, values, grad)[0] for out in (got, expected))
    torch.testing.assert_close(ours, theirs)
