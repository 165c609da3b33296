"""What the coverage table is made of: shares, refusals, pages, models of other libraries and of one's own."""

import importlib
import sys

import pytest
import torch
from networks import Net, mlp
from torch import nn

from align.benchmark import coverage, own, vision
from align.benchmark.hub import TYPES
from wsgraph import trace


def test_permutable_counts_axes_by_size():
    model = mlp(4, 8, 2)  # of 32 × 2, 8, 16 × 2 and 2 elements on axes, 32, 8 and 16 may move
    assert coverage.permutable(model, trace(model)) == pytest.approx((32 + 8 + 16) / (64 + 8 + 32 + 2))
    kernels = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.ReLU(), nn.Conv2d(4, 2, 1, bias=False))
    assert coverage.permutable(kernels, trace(kernels)) == pytest.approx((108 + 8) / (2 * (108 + 8)))


def test_permutable_counts_parameters_that_nothing_uses():
    model = Net(lambda m, x: m.b(torch.relu(m.a(x))), a=nn.Linear(4, 8), b=nn.Linear(8, 2), c=nn.Linear(9, 9))
    assert coverage.permutable(model, trace(model, torch.randn(2, 4))) == pytest.approx(56 / (106 + 2 * 81 + 9))


def test_a_refusal_is_a_row():
    model = Net(lambda m, x: m.a(x) if x.sum() > 0 else -m.a(x), a=nn.Linear(4, 3))
    size, *_, why, seconds, matched, learned = coverage.row(lambda: (model, torch.randn(2, 4)))
    assert (size, matched, learned) == ("15", "-", "-")
    assert why.startswith("refused: forward needs the value of a tensor, to branch on it or as a number (`")
    assert seconds.endswith(" s")


def test_the_table_of_a_page_is_replaced(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{coverage.header()}\n| old |\n| older |\n\nafter\n| other |\n")
    coverage.replace_table(page, f"{coverage.header()}\n| new |")
    assert page.read_text() == f"before\n\n{coverage.header()}\n| new |\n\nafter\n| other |\n"
    page.write_text("nothing")
    with pytest.raises(SystemExit, match="has no table with the columns model, parameters"):
        coverage.replace_table(page, "")


def test_the_table_has_models_of_every_library():
    assert len(TYPES) == 60
    assert len(vision.NAMES) >= 20
    assert {name.partition(":")[0] for name in coverage.models()} >= {"timm", "transformers", "torch_geometric"}
    with pytest.raises(SystemExit, match="no model has one of the words"):
        coverage.coverage(["nonesuch"])


def test_names_of_torchvision_are_there_while_timm_is_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)  # as if it were not installed
    with vision._torchvision():
        modes = importlib.import_module("torchvision.transforms.functional").InterpolationMode
        assert modes.BICUBIC.name == "BICUBIC"
        assert issubclass(importlib.import_module("torchvision.ops.misc").FrozenBatchNorm2d, nn.Module)
    assert not any(name.split(".")[0] == "torchvision" for name in sys.modules)


def network():
    return mlp(4, 8, 2), torch.randn(2, 4)


def test_a_model_of_ones_own(capsys):
    own.describe(f"{__name__}:network")
    page = capsys.readouterr().out
    assert "| Sequential | 58 | 3 | 1 | 52.8% | network input, network output |" in page
    assert "1 of 3 groups may be permuted; 4 parameters" in page


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nonesuch:net", "cannot import 'nonesuch'"),
        (f"{__name__}:nothing", "expected package.module:factory"),
        ("math:pi", "expected package.module:factory"),
        ("builtins:dict", "returned dict; expected an nn.Module"),
    ],
)
def test_what_is_no_model_of_ones_own(name, message):
    with pytest.raises(SystemExit, match=message):
        own.build(name)
