"""Tables that commands print and keep."""

import sys

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
