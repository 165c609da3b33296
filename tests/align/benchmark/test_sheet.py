"""Tables that commands print and keep."""

import sys

import pytest

from align.benchmark import zoos
from align.benchmark.page import fill
from align.benchmark.sheet import Sheet


def test_what_is_printed_is_kept_with_the_command_that_made_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["align.benchmark", "widths", "cnn"])
    sheet = Sheet("widths/cnn", "Two widths", ("network", "accuracy"))
    sheet.add("narrow [32]", "95.0%")
    sheet.add("wide", "96.1%")
    sheet.close()
    kept = (tmp_path / "results/widths/cnn/table.md").read_text()
    head, _, table = kept.partition("\n\n")
    assert head.startswith("`python -m align.benchmark widths cnn`, commit ")
    assert head.endswith(". Two widths.")
    assert table == "| network | accuracy |\n| --- | ---: |\n| narrow [32] | 95.0% |\n| wide | 96.1% |\n"
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("narrow [32]", "95.0%", "96.1%"))
    page = tmp_path / "page.md"
    page.write_text("<!-- widths/cnn/table.md -->\n<!-- end -->\n")
    assert fill(page, tmp_path / "results") == {"widths/cnn/table.md": True}
    assert table in page.read_text()


def test_zoos_are_listed_with_the_quality_of_their_networks(tiny_zoo, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("align.benchmark.zoos.cache_folder", lambda: tmp_path)
    (tmp_path / "zoos").mkdir()
    (tmp_path / "zoos" / "tiny-zoo").symlink_to(tiny_zoo.folder)
    zoos.compare(["tiny"])
    row = (tmp_path / "results/zoos/table.md").read_text().splitlines()[-1].split(" | ")
    assert row[:2] == ["| tiny-zoo", str(len(tiny_zoo))]
    assert float(row[5].partition("%")[0]) > 10
    assert "tiny-zoo" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"none of 1 zoos in .* has nonesuch or other in its name"):
        zoos.compare(["nonesuch", "other"])
