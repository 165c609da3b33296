"""Tables made again, beside those of a page."""

import pytest

from align.benchmark.__main__ import main
from align.benchmark.agreement import Cell, made_again, rows_of, shared

TABLE = """| networks | method | iterations | barrier | AUC | paper: barrier | AUC |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| MLP | none | 0 | 1.50 ± 0.10 | 0.5 | 2.0 | – |
| MLP | Sinkhorn | 10 | 0 | 0.1 | 0.3 | – |
| MLP | Sinkhorn | 20 | 0.10 ± 0.03 | 0.1 | 0.3 | – |
"""
PAGE = f"words\n\n<!-- a/table.md -->\n\n{TABLE}\n<!-- end -->\n\n<!-- b/table.md -->\n<!-- end -->\n"


def test_rows_are_named_by_what_tells_them_apart():
    rows = rows_of(f"made by a command\n\n{TABLE}")
    assert list(rows) == [("MLP", "none", "0"), ("MLP", "Sinkhorn", "10"), ("MLP", "Sinkhorn", "20")]
    assert rows["MLP", "none", "0"] == {"barrier": "1.50 ± 0.10", "AUC": "0.5", "paper: barrier": "2.0", "AUC (2)": "–"}
    assert {name[0] for name in rows_of(f"{TABLE}\n### more\n\n{TABLE}")} == {"table 1", "table 2"}


def test_numbers_are_compared_in_errors_of_their_difference(tmp_path):
    (tmp_path / "page.md").write_text(PAGE)
    (tmp_path / "a").mkdir()
    again = TABLE.replace("0.10 ± 0.03", "0.30 ± 0.04").replace("| 0 | 0.1", "| 0.01 ± 0.01 | 0.1")
    (tmp_path / "a" / "table.md").write_text(again.replace("0.5", "0.9"))
    (cells,) = made_again(tmp_path / "page.md", tmp_path).values()
    assert [(c.place, round(c.apart, 2)) for c in cells] == [
        ("MLP, Sinkhorn, 20, barrier", 4.0),
        ("MLP, Sinkhorn, 10, barrier", 1.0),
        ("MLP, none, 0, barrier", 0.0),
    ]


def test_percentages_and_thousands():
    assert Cell("", "64.0% ± 3.0%", "60.0% ± 4.0%").apart == pytest.approx(0.8)
    assert Cell("", "1,000 ± 10", "1,020").apart == 2
    assert Cell("", "0.5 ± 1e-06", "0.5").apart == 0


def test_rows_and_columns_that_only_one_table_has_are_left_out():
    head, line = "| method | barrier |\n| --- | ---: |\n", "| one | 0.1 ± 0.1 |\n"
    assert shared(rows_of(head + line), rows_of(head + line.replace("one", "other"))) == []
    assert shared(rows_of(head + line), rows_of(head.replace("barrier", "loss") + line)) == []


def test_the_command_says_how_far_apart_and_leaves_the_page_alone(tmp_path, monkeypatch, capsys):
    page, told = tmp_path / "page.md", ["page", str(tmp_path / "page.md"), "--results", str(tmp_path), "--compare"]
    page.write_text(PAGE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["align.benchmark", *told])
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "table.md").write_text(TABLE)
    with pytest.raises(SystemExit, match=r"no table of .*page\.md that was made again"):
        main()
    (tmp_path / "a" / "table.md").write_text(TABLE.replace("1.50", "1.20"))
    main()
    assert "MLP, none, 0" in capsys.readouterr().out
    row = "| a | 2 | 1 | 1 | 0 | MLP, none, 0, barrier: 2.1 | 1.50 ± 0.10 | 1.20 ± 0.10 |"
    assert row in (tmp_path / "results/again/table.md").read_text()
    assert page.read_text() == PAGE
