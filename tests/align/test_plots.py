import argparse
import re
from pathlib import Path

import matplotlib
import pytest
import torch
from PIL import Image

from align import Barrier
from align.plots import (
    COLOURS,
    MARKERS,
    STYLE,
    add_output,
    plot_curves,
    plot_images,
    plot_line_panels,
    plot_lines,
    plot_map,
    plot_permutations,
)

LAM = torch.linspace(0, 1, 7)
HILL = Barrier(LAM, LAM * (1 - LAM))
ORDER = torch.tensor([2, 0, 1])

PICTURES = {
    "lines": lambda path: plot_lines({"mine": HILL}, path, "A title"),
    "panels": lambda path: plot_line_panels({"left": {"mine": HILL}, "right": {"mine": HILL}}, path, "A title"),
    "curves": lambda path: plot_curves({"mine": ([1, 2], [3, 4])}, path, "x", "y", "A title"),
    "permutations": lambda path: plot_permutations({"mine": (torch.rand(3, 3), ORDER, ORDER)}, path, "A title"),
    "map": lambda path: plot_map({"panel": torch.rand(2, 2)}, ["mine", "other"], path, "A title"),
    "images": lambda path: plot_images({"mine": torch.rand(4, 4)}, path, "A title"),
}


def texts(path):
    """What is written in an SVG, in order."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf", ""])
def test_png_and_svg_beside_what_was_asked_for(tmp_path, name, ending):
    PICTURES[name](tmp_path / "new" / f"picture{ending}")
    made = {path.suffix for path in (tmp_path / "new").iterdir()}
    assert made == {".png", ".svg"} | ({ending} - {""})
    with Image.open(tmp_path / "new" / "picture.png") as picture:
        assert min(picture.size) > 200
    assert {"A title", "mine"} <= set(texts(tmp_path / "new" / "picture.svg"))


def test_low_curves_are_shown_closer_where_one_towers_over_them(tmp_path):
    curves = {label: Barrier(LAM, height * LAM * (1 - LAM)) for label, height in (("a", 1.0), ("b", 2.0), ("c", 9.0))}
    plot_lines(curves, tmp_path / "towering.svg")
    plot_lines(curves | {"d": Barrier(LAM, 8 * LAM)}, tmp_path / "alike.svg")
    assert "closer" in texts(tmp_path / "towering.svg")
    assert "closer" not in texts(tmp_path / "alike.svg")
    plot_line_panels({"left": curves, "right": curves}, tmp_path / "panels.svg")
    assert {"left", "left, closer", "right", "right, closer"} <= set(texts(tmp_path / "panels.svg"))


@pytest.mark.parametrize("name", PICTURES)
def test_the_same_picture_is_the_same_file(tmp_path, name):
    for folder in ("first", "second"):
        torch.manual_seed(0)
        PICTURES[name](tmp_path / folder / "picture.svg")
    for ending in ("png", "svg"):
        first, second = ((tmp_path / folder / f"picture.{ending}").read_bytes() for folder in ("first", "second"))
        assert first == second


def test_the_style_stays_inside(tmp_path):
    before = dict(matplotlib.rcParams)
    plot_lines({"mine": HILL}, tmp_path / "line.png")
    assert dict(matplotlib.rcParams) == before


def test_every_colour_has_its_marker():
    assert len(set(COLOURS)) == len(set(MARKERS)) == 8
    looks = [tuple(style.values()) for style in STYLE["axes.prop_cycle"]]
    assert len(set(looks)) == len(looks) == 16


def test_several_pairs_have_a_band(tmp_path):
    path = tmp_path / "lines.svg"
    curves = {f"method {k}": Barrier(LAM, torch.rand(4, 7)) for k in range(len(COLOURS) + 2)}
    plot_lines(curves, path, title="Many methods")
    text = path.read_text(encoding="utf-8")
    assert text.count("FillBetweenPolyCollection") + text.count("PolyCollection") >= len(curves)
    for colour in COLOURS:
        assert colour.lower() in text.lower()
    assert {"mean of 4 pairs,", "band: ± one standard error"} <= set(texts(path))


def test_panels_have_titles_and_one_legend(tmp_path):
    path = tmp_path / "panels.svg"
    plot_line_panels({"3 layers": {"not aligned": HILL}, "4 layers": {"not aligned": HILL}}, path)
    found = texts(path)
    assert {"3 layers", "4 layers"} <= set(found)
    assert found.count("not aligned") == 1


def test_logarithmic_curves_have_plain_numbers(tmp_path):
    path = tmp_path / "curves.svg"
    plot_curves({"errors": ([1, 2, 3], [0.03, 1, 60])}, path, "networks", "errors", scale="log")
    assert {"0.05", "1", "50", "networks", "errors (log scale)"} <= set(texts(path))
    plot_curves({"errors": ([1, 2, 3], [30, 40, 60])}, path, "networks", "errors", scale="log")
    assert {"30", "40", "50"} <= set(texts(path))


def test_counts_have_no_ticks_in_between(tmp_path):
    path = tmp_path / "curves.svg"
    plot_curves({"errors": ([2, 3], [0.4, 0.4])}, path, "networks", "errors")
    assert "2.5" not in texts(path)
    plot_curves({"errors": ([2.0, 3.0], [0.4, 0.4])}, path, "seconds", "errors")
    assert "2.4" in texts(path)


def test_what_curves_are_held_against_takes_no_colour(tmp_path):
    path = tmp_path / "curves.svg"
    plot_curves({"signal": (LAM, LAM), "mine": (LAM, LAM)}, path, "x", "y", target="signal")
    assert COLOURS[0].lower() in path.read_text()
    assert COLOURS[1].lower() not in path.read_text()


def test_wrong_predictions_are_counted_and_coloured(tmp_path):
    scores, truth, found = torch.rand(6, 6), torch.arange(6), torch.tensor([1, 0, 2, 3, 4, 5])
    plot_permutations({"noise": (scores, found, truth)}, tmp_path / "wrong.png")
    plot_permutations({"noise": (scores, truth, truth)}, tmp_path / "right.png")
    assert "4 of 6 right" in texts(tmp_path / "wrong.svg")
    assert "6 of 6 right" in texts(tmp_path / "right.svg")
    orange, found = tuple(bytes.fromhex(COLOURS[1][1:])), {}
    for name in ("wrong", "right"):
        with Image.open(tmp_path / f"{name}.png") as picture:
            found[name] = {colour: count for count, colour in picture.convert("RGB").getcolors(1 << 20)}[orange]
    assert found["wrong"] > 10 * found["right"]  # the legend has orange, too
    assert {"right", "wrong"} <= set(texts(tmp_path / "right.svg"))


def test_the_order_of_neurons_does_not_show(tmp_path):
    scores, found, shuffle = torch.rand(128, 128), torch.randperm(128), torch.randperm(128)
    plot_permutations({"noise": (scores, found, torch.arange(128))}, tmp_path / "plain.png")
    plot_permutations({"noise": (scores[:, shuffle], shuffle.argsort()[found], shuffle.argsort())}, tmp_path / "b.png")
    assert (tmp_path / "plain.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_the_legend_of_a_map_names_every_kind_once(tmp_path):
    path = tmp_path / "map.svg"
    labels = ["odd", "even", "odd", "even"]
    plot_map({"plain": torch.rand(4, 2), "aligned": torch.rand(4, 2)}, labels, path)
    assert sorted(texts(path)) == ["aligned", "even", "odd", "plain"]


def test_more_kinds_than_colours_are_all_on_the_map(tmp_path):
    path = tmp_path / "map.svg"
    labels = [f"kind {k}" for k in range(20)]
    plot_map({"plain": torch.rand(20, 2)}, labels, path)
    assert set(labels) <= set(texts(path))


def test_images_share_one_scale(tmp_path):
    plot_images({"dark": torch.zeros(2, 2), "light": torch.ones(2, 2).requires_grad_()}, tmp_path / "images.png")
    with Image.open(tmp_path / "images.png") as picture:
        width, height = picture.size
        dark, light = (picture.convert("L").getpixel((int(width * x), height // 2)) for x in (0.25, 0.75))
    assert (dark, light) == (0, 255)


def test_images_have_captions(tmp_path):
    plot_images({"dark": torch.zeros(2, 2)}, tmp_path / "images.svg", captions={"dark": "error 0.1"})
    assert {"dark", "error 0.1"} <= set(texts(tmp_path / "images.svg"))


def test_the_label_is_the_barrier_unless_given(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("align.plots.plot_lines", lambda curves, path: seen.extend(curves))
    Barrier(LAM, 4 * LAM * (1 - LAM)).plot(tmp_path / "x.png")
    Barrier(LAM, LAM).plot(tmp_path / "x.png", label="mine")
    assert seen == ["barrier 1", "mine"]


def output(*words):
    parser = argparse.ArgumentParser()
    add_output(parser, "/somewhere/else/example.py")
    return parser.parse_args(words).output


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("new", "new/example.png"),
        ("new/deeper/", "new/deeper/example.png"),
        ("old.d", "old.d/example.png"),
        (".", "example.png"),
        ("mine.png", "mine.png"),
        ("new/mine.SVG", "new/mine.SVG"),
    ],
)
def test_a_script_writes_a_picture_or_into_a_folder(given, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.d").mkdir()
    assert output("--output", given) == Path(expected)


def test_a_script_writes_into_outputs_unless_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert output() == Path("outputs/example.png")


def test_a_picture_of_unknown_kind_is_refused_before_the_work_begins(capsys):
    with pytest.raises(SystemExit):
        output("--output", "mine.pgn")
    assert "mine.pgn is neither a folder nor a picture (.png, .svg or .pdf)" in capsys.readouterr().err
