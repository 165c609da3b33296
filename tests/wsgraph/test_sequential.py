import pytest
import torch
from networks import cnn, mlp
from torch import nn

from wsgraph import Permutation, to_graph, trace
from wsgraph.sequential import spec_of_state_dict
from wsgraph.testing import Residual, assert_function_preserved

quiet = pytest.mark.filterwarnings("ignore:.*assuming a plain chain of layers")
CHAINS = {
    "mlp": lambda: mlp(4, 5, 6, 2),
    "no bias": lambda: nn.Sequential(nn.Linear(4, 5, bias=False), nn.ReLU(), nn.Linear(5, 2)),
    "cnn with batch norm and Flatten": cnn,
    "cnn without": lambda: cnn(norm=False),
    "layer norm": lambda: nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 2)),
    "depthwise": lambda: nn.Sequential(nn.Conv2d(3, 6, 1), nn.Conv2d(6, 6, 3, groups=6), nn.ReLU(), nn.Conv2d(6, 2, 1)),
    "conv1d": lambda: nn.Sequential(nn.Conv1d(3, 6, 3), nn.ReLU(), nn.Conv1d(6, 2, 1)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_state_dict_gives_the_symmetry_of_its_module(name):
    model = CHAINS[name]().eval()
    spec, traced = spec_of_state_dict(model.state_dict()), trace(model)
    assert [(g.name, g.size, g.why) for g in spec.groups.values()] == [
        (g.name, g.size, g.why) for g in traced.groups.values()
    ]
    for param in spec.params:
        assert spec.params[param].axes == traced.params[param].axes
        assert spec.params[param].role == traced.params[param].role
        assert spec.params[param].reads == traced.params[param].reads
        assert spec.params[param].block == traced.params[param].block


@quiet
@pytest.mark.parametrize("name", CHAINS)
def test_permuting_by_that_symmetry_preserves_the_function(name):
    model = CHAINS[name]()
    assert_function_preserved(model, spec=to_graph(model.state_dict()).spec)


@quiet
def test_a_permuted_state_dict_loads_again():
    model = cnn()
    graph = to_graph(model.state_dict())
    permuted = cnn()
    permuted.load_state_dict(Permutation.random(graph.spec).apply(graph).to_state_dict())
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(permuted(x), model(x))


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"a.bias": torch.zeros(3)}, "no weight of two or more dimensions, so there is nothing to align"),
        (
            {"a.weight": torch.zeros(3, 4), "b.weight": torch.zeros(2, 5)},
            r"'b.weight' has shape \(2, 5\).*3 outputs of the layer",
        ),
        (
            {"a.weight": torch.zeros(3, 4), "b.bias": torch.zeros(7)},
            r"'b.bias' has shape \(7,\).*the 3 outputs of 'a.weight'",
        ),
        (  # of a Linear, Flatten would leave positions first
            {"a.weight": torch.zeros(3, 4), "b.weight": torch.zeros(2, 6)},
            r"'b.weight' has shape \(2, 6\).*3 outputs of the layer",
        ),
    ],
)
def test_what_is_not_a_chain_is_refused(tensors, message):
    with pytest.raises(ValueError, match=message):
        to_graph(tensors)


def test_the_error_offers_the_alternatives():
    with pytest.raises(ValueError, match=r"pass the module, to_graph\(model\), or spec="):
        to_graph({"a.weight": torch.zeros(3, 4), "b.weight": torch.zeros(2, 5)})


class Skipping(nn.Module):
    """A residual network whose names are those of a chain."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(3, 4)
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        return self.head(x + self.body(x))


NAMED = nn.ModuleDict({"up": nn.Linear(4, 8), "down": nn.Linear(8, 4)})
BLOCKS = {
    "1": nn.Sequential(nn.Conv2d(3, 4, 1), Residual(4, 4, norm=False), nn.Conv2d(4, 2, 1)),
    "net.1": nn.ModuleDict({"net": nn.ModuleList([nn.Linear(3, 4), mlp(4, 6, 4), mlp(4, 6, 4), nn.Linear(4, 2)])}),
    "b": nn.ModuleDict({"a": nn.Linear(3, 4), "b": NAMED}),
}


@pytest.mark.parametrize(("block", "model"), BLOCKS.items(), ids=BLOCKS)
def test_what_may_be_a_residual_block_is_refused(block, model):
    with pytest.raises(ValueError, match=rf"'{block}' .* reads and returns 4 values; it may be a residual .* Pass"):
        to_graph(model.state_dict())


@quiet
@pytest.mark.parametrize(
    "model",
    [
        nn.ModuleDict({"stem": nn.Linear(3, 4), "body": mlp(4, 4, 4), "top": nn.Linear(4, 2)}),
        nn.ModuleDict({"net": nn.ModuleDict({"a": nn.Linear(4, 3), "b": nn.Linear(3, 4)})}),
        nn.ModuleDict({"coder": mlp(6, 5, 2), "decoder": mlp(2, 5, 6)}),
    ],
    ids=["a list of layers", "all of it", "two halves"],
)
def test_lists_of_layers_and_whole_networks_are_no_blocks(model):
    assert to_graph(model.state_dict()).spec.free


def test_a_chain_is_an_assumption_said_once():
    model = Skipping()
    with pytest.warns(UserWarning, match="assuming a plain chain of layers.* pass the module, or spec=") as caught:
        graph = to_graph(model.state_dict())
    assert [w.filename for w in caught] == [__file__]
    to_graph(model.state_dict(), spec=trace(model))  # says nothing
    with pytest.raises(ValueError, match="equal shapes but different symmetries"):  # and what is known speaks up
        to_graph(model).spec.require_same(graph.spec)


@quiet
@pytest.mark.parametrize("name", CHAINS)
def test_what_a_state_dict_cannot_tell_is_no_difference(name):
    model = CHAINS[name]()
    known, guessed = to_graph(model).spec, to_graph(model.state_dict()).spec
    known.require_same(guessed)
    guessed.require_same(known)


@pytest.mark.parametrize("norm", [nn.GroupNorm(2, 6), nn.GroupNorm(1, 6), nn.InstanceNorm2d(6, affine=True)])
def test_a_norm_of_maps_without_statistics_is_refused(norm):
    model = nn.Sequential(nn.Conv2d(3, 6, 3), norm, nn.ReLU(), nn.Conv2d(6, 2, 1))
    message = (
        r"'1' scales the channels .* may be GroupNorm or LayerNorm, .* Pass the module, to_graph\(model\), or spec="
    )
    with pytest.raises(ValueError, match=message):
        to_graph(model.state_dict())


def test_square_convolutions_are_named():
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.ConvTranspose2d(6, 6, 3), nn.ReLU(), nn.Conv2d(6, 2, 1))
    message = r"assuming a plain chain.*\['2.weight'\] are read as Conv, and a ConvTranspose with as many inputs as out"
    with pytest.warns(UserWarning, match=message):
        spec = to_graph(model.state_dict()).spec
    assert [str(axis) for axis in spec.params["2.weight"].axes] == ["2", "0", "3", "3"]
    with pytest.warns(UserWarning, match=r"pass the module, or spec=$"):
        to_graph(cnn().state_dict())
