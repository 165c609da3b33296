import io
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

import align.progress
from align.progress import progress

NOTE = "supervised 0.451 lmc 0.692 alignment 0.890"


def test_bars_may_be_nested_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress("outer", 2) as outer, progress("inner", None) as inner:
        inner(note="x")
        outer(advance=2)
    assert "outer" in capsys.readouterr().err


@pytest.fixture
def shown(monkeypatch):
    """What a terminal of some width shows of a bar's first step."""

    def run(width, title="training the aligner"):
        file = io.StringIO()
        console = Console(width=width, force_terminal=True, color_system=None, file=file)
        monkeypatch.setattr(align.progress, "Console", lambda **_: console)
        with progress(title, 20000) as step:
            step(note=NOTE, advance=1201)
        return max(file.getvalue().splitlines(), key=len)

    return run


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("title", ["training the aligner", "training 256 networks (cnn_wide on fashion_mnist, digits)"])
def test_count_and_time_left_are_shown_at_any_width(shown, width, title):
    line = shown(width, title)
    assert re.search(r" 1201/20000 \d:\d\d:\d\d left (-:--:--|\d:\d\d:\d\d) ", line)
    assert title[:25] in line


def test_the_note_is_cropped_where_there_is_no_room(shown):
    assert "supervised 0.45" in shown(80)
    assert NOTE not in shown(80)
    assert NOTE in shown(120)


def test_without_a_terminal_a_line_is_printed_now_and_then(monkeypatch, capsys):
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr(align.progress, "time", SimpleNamespace(monotonic=lambda: next(now)))
    with progress("training", 10) as step:
        for k in range(8):
            step(note=f"loss [{k}]")
    printed = capsys.readouterr()
    assert printed.out == ""
    first, second = printed.err.splitlines()
    assert re.fullmatch(r"training 3/10 \S+ left \S+ loss \[2\]", first)
    assert re.fullmatch(r"training \d/10 \S+ left \S+ loss \[\d\]", second)


def test_without_a_terminal_or_a_total_there_is_no_time_left(monkeypatch, capsys):
    monkeypatch.setattr(align.progress, "INTERVAL", 0.0)
    with progress("matching", None) as step:
        step(note="agreement 3")
    assert re.fullmatch(r"matching 1/\? \S+ agreement 3\n", capsys.readouterr().err)
