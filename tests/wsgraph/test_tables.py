from html.parser import HTMLParser

from torch import nn

from wsgraph import Group, Param, Spec, WeightGraph, to_graph, trace
from wsgraph.tables import HEADER, as_html, as_text, rows_of, summary_of

SPEC = Spec(
    [
        Group("input", 3, why="network input"),
        Group("heads", 2),
        Group("a<b>", 4, activation="relu", parent="heads"),
    ],
    [Param(f"w{i}", ("a<b>", "input"), "weight", reads=1) for i in range(5)],
)


class Cells(HTMLParser):
    """The text of a table's cells, row by row, and of its caption."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.caption = ""
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] == "caption":
            self.caption += data
        elif self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_one_row_per_group():
    assert rows_of(SPEC) == [
        ("input", "3", "identity", "network input", "w0, w1, w2 and 2 more"),
        ("heads", "2", "identity", "-", ""),
        ("a<b> (in heads)", "4", "relu", "-", "w0, w1, w2 and 2 more"),
    ]
    assert summary_of(SPEC) == "2 of 3 groups may be permuted; 5 parameters"


def test_text_and_html_are_the_same_table():
    found = Cells(SPEC._repr_html_())
    assert found.rows == [list(HEADER), *map(list, rows_of(SPEC))]
    assert found.caption == summary_of(SPEC) == as_text(SPEC).splitlines()[-1]
    assert str(SPEC) == as_text(SPEC)


def test_names_are_escaped():
    assert "a&lt;b&gt;" in as_html(SPEC)


def test_a_graph_shows_its_groups():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    shown = to_graph(model)._repr_html_()
    assert shown.startswith("<p>WeightGraph(9 nodes in 3 groups, 26 weights)</p>")
    assert shown.endswith(as_html(trace(model)))
    assert WeightGraph()._repr_html_() == "<p>WeightGraph()</p>"
