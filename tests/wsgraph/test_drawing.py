import matplotlib.figure
import pytest
from matplotlib.collections import LineCollection
from networks import cnn, mlp
from PIL import Image
from torch import nn

from wsgraph import draw, to_graph
from wsgraph.drawing import SHOWN


@pytest.fixture
def figure(monkeypatch):
    """The figure that is saved."""
    saved = []
    original = matplotlib.figure.Figure.savefig

    def savefig(self, *args, **kwargs):
        saved.append(self)
        original(self, *args, **kwargs)

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", savefig)
    return saved


def parts(figure):
    (axes,) = figure.axes
    lines = [c for c in axes.collections if isinstance(c, LineCollection)]
    nodes = [c for c in axes.collections if not isinstance(c, LineCollection)]
    return lines, nodes, [t.get_text() for t in axes.texts]


def test_one_circle_per_neuron_and_one_line_per_weight(tmp_path, figure):
    draw(to_graph(mlp(4, 5, 2)), tmp_path / "mlp.png")
    lines, nodes, texts = parts(figure[0])
    assert [len(c.get_segments()) for c in lines] == [20, 10]
    assert [len(c.get_offsets()) for c in nodes] == [4, 5, 2]
    assert texts == ["input\n4", "0\n5\nrelu", "output\n2"]


def test_wide_groups_are_cut_with_an_ellipsis(tmp_path, figure):
    draw(to_graph(mlp(4, 50, 2)), tmp_path / "mlp.png")
    lines, nodes, texts = parts(figure[0])
    assert [len(c.get_offsets()) for c in nodes] == [4, SHOWN, 2]
    assert [len(c.get_segments()) for c in lines] == [4 * SHOWN, SHOWN * 2]
    assert texts.count("⋮") == 1


def test_sign_decides_the_colour(tmp_path, figure):
    model = mlp(2, 2).requires_grad_(False)
    model[0].weight.copy_(model[0].weight.abs() * model[0].weight.new_tensor([[1, -1], [1, 1]]))
    draw(to_graph(model), tmp_path / "x.png")
    colours = parts(figure[0])[0][0].get_colors()[:, :3].tolist()
    assert colours[0] == colours[2] == colours[3] != colours[1]


@pytest.mark.parametrize(
    "model",
    [
        cnn(),
        nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 3, groups=4), nn.ReLU(), nn.Conv2d(4, 2, 1)),
        cnn().half(),
    ],
    ids=["cnn", "depthwise and kernels of one element", "half"],
)
def test_convolutions_can_be_drawn(model, tmp_path, figure):
    draw(to_graph(model), tmp_path / "x.png")
    assert sum(len(c.get_segments()) for c in parts(figure[0])[0]) > 0


def test_zero_weights_can_be_drawn(tmp_path):
    model = mlp(2, 2)
    model[0].weight.data.zero_()
    draw(to_graph(model), tmp_path / "zero.png")
    with Image.open(tmp_path / "zero.png") as image:
        assert min(image.size) > 200


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_ending_decides_the_format(tmp_path, ending, start):
    draw(to_graph(mlp(3, 2)), tmp_path / f"x.{ending}")
    assert (tmp_path / f"x.{ending}").read_bytes().startswith(start)
