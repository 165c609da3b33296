"""Networks in other widths: a widened one computes the same, a cut one has the weights of its matched neurons."""

import pytest
import torch
from networks import cnn, mlp
from torch import nn

from wsgraph import to_graph, trace
from wsgraph.modules import tensors_of, with_tensors
from wsgraph.widths import fitted, placed, positions, widened


def residual(width):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.inner, self.last = nn.Linear(4, width), nn.Linear(width, width + 2), nn.Linear(width, 3)
            self.back = nn.Linear(width + 2, width)

        def forward(self, x):
            x = torch.relu(self.first(x))
            return self.last(x + self.back(torch.relu(self.inner(x))))

    return Net()


def attention(width, heads):
    return nn.TransformerEncoderLayer(6, heads, width, batch_first=True, dropout=0.0)


PAIRS = {
    "mlp": (mlp(4, 3, 5, 2), mlp(4, 7, 6, 2), torch.randn(5, 4)),
    "residual": (residual(4), residual(7), torch.randn(5, 4)),
    "attention": (attention(5, 2), attention(9, 2), torch.randn(2, 3, 6)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_widened_network_computes_the_same(name):
    narrow, wide, x = (part.double() for part in PAIRS[name])
    narrow, wide = narrow.eval(), wide.eval()
    small, large = trace(narrow, x), trace(wide, x)
    partners = {}
    for group in large.free:
        if group.parent is None:
            count = small.groups[group.name].size
            partners[group.name] = torch.full((group.size,), -1)
            partners[group.name][torch.randperm(group.size)[:count]] = torch.randperm(count)
    if name == "attention":
        partners = {g: p for g, p in partners.items() if small.groups[g].size != large.groups[g].size}
    tensors = fitted(tensors_of(narrow), small, tensors_of(wide), large, partners)
    with torch.no_grad():
        torch.testing.assert_close(with_tensors(wide, tensors)(x), narrow(x))


def test_a_cut_network_has_the_weights_of_its_neurons():
    narrow, wide = mlp(4, 3, 2), mlp(4, 5, 2)
    small, large = (to_graph(model).spec for model in (narrow, wide))
    found = fitted(wide.state_dict(), large, narrow.state_dict(), small, {"0": torch.tensor([4, 0, 2])})
    assert torch.equal(found["0.weight"], wide[0].weight[[4, 0, 2]])
    assert torch.equal(found["0.bias"], wide[0].bias[[4, 0, 2]])
    assert torch.equal(found["2.weight"], wide[2].weight[:, [4, 0, 2]])
    assert torch.equal(found["2.bias"], wide[2].bias)


def test_those_that_were_there_come_first_in_every_run():
    spec = to_graph(mlp(4, 3, 2)).spec
    large = widened(spec, {"0": 5})
    assert large.shape("2.weight") == (2, 5)
    assert placed(spec, large)["0"].tolist() == [0, 1, 2, -1, -1]
    heads = trace(attention(5, 2).eval(), torch.randn(2, 3, 6))
    dims = next(g for g in heads.free if g.parent is not None)
    wide = widened(heads, {dims.name: dims.size // 2 * 3, dims.parent: 3})
    assert placed(heads, wide)[dims.name].tolist() == [*range(dims.size), *[-1] * (dims.size // 2)]


def test_flattened_images_keep_their_places():
    model = cnn()
    spec = trace(model)
    name = next(p for p in reversed(spec.params) if spec.params[p].role == "weight")
    axis = spec.params[name].axes[1]
    group = axis.groups[0]
    partners = {group: torch.arange(spec.groups[group].size).flip(0)}
    partners[group][0] = -1
    found = positions(axis, spec, spec, partners)
    taps = spec.axis_size(axis) // spec.groups[group].size
    assert found[:taps].eq(-1).all()
    assert found[-taps:].tolist() == list(range(taps))


def test_groups_of_convolutions_cannot_be_fitted():
    small, large = (
        trace(
            nn.Sequential(nn.Conv2d(4, n, 1), nn.Conv2d(n, n, 1, groups=2), nn.Conv2d(n, 2, 1)), torch.randn(2, 4, 3, 3)
        )
        for n in (4, 8)
    )
    axis = next(axis for p in large.params.values() for axis in p.axes if "/" in str(axis))
    with pytest.raises(ValueError, match=r"stands inside runs .* of 2 in one network and 4 in the other; only equal"):
        positions(axis, small, large, placed(small, large))
