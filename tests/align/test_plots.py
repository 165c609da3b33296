import pytest
import torch

from align import Barrier
from align.plots import COLOURS, plot_lines

LAM = torch.linspace(0, 1, 7)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_one_curve(tmp_path, ending):
    path = tmp_path / f"line.{ending}"
    Barrier(LAM, LAM * (1 - LAM)).plot(path)
    assert path.stat().st_size > 1000


def test_several_pairs_have_a_band_and_labels_are_text(tmp_path):
    path = tmp_path / "lines.svg"
    curves = {f"method {k}": Barrier(LAM, torch.rand(4, 7)) for k in range(len(COLOURS) + 2)}
    plot_lines(curves, path, title="Many methods")
    text = path.read_text()
    assert text.count("FillBetweenPolyCollection") + text.count("PolyCollection") >= len(curves)
    for colour in COLOURS:
        assert colour.lower() in text.lower()


def test_the_label_is_the_barrier_unless_given(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("align.plots.plot_lines", lambda curves, path: seen.extend(curves))
    Barrier(LAM, 4 * LAM * (1 - LAM)).plot(tmp_path / "x.png")
    Barrier(LAM, LAM).plot(tmp_path / "x.png", label="mine")
    assert seen == ["barrier 1", "mine"]
