"""The command as a whole: help and its examples, exit codes, errors in one line."""

import importlib
import json
import re
import runpy
import tomllib
from pathlib import Path

import pytest

from align.cli import aligning, command, judging, looking
from align.cli.command import main
from align.merging.merge import REPAIRS
from wsgraph.checkpoints import EXPECTED

COMMANDS = ("inspect", "draw", "match", "merge", "barrier", "distance")
ALL = (*COMMANDS, "many")  # whose examples need a cluster; test_mass.py reads them
SHOWN = [
    command.EXAMPLES,
    looking.INSPECT,
    looking.DRAW,
    aligning.MATCH,
    aligning.MERGE,
    judging.BARRIER,
    judging.DISTANCE,
]
EXAMPLES = sorted(set(re.findall(r"^  wsalign (.*)$", "\n".join(SHOWN), re.MULTILINE)))
ROOT = Path(__file__).parents[3]


def help_of(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--help"])
    assert stopped.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches_by_example(name, capsys):
    text = help_of([name], capsys)
    assert f"examples:\n  wsalign {name} " in text
    assert sum(f"  wsalign {words}\n" in text for words in EXAMPLES) >= 2


def test_help_lists_the_commands(capsys):
    text = help_of([], capsys)
    assert all(re.search(rf"^    {name} ", text, re.MULTILINE) for name in ALL)
    assert "exit codes: 0 done, 1 failed" in text


@pytest.mark.parametrize("words", EXAMPLES)
def test_examples_run(words, run, home):
    code, out, err = run(words)
    assert code == 0, err
    if "--json" in words:
        json.loads(out)
    for path in re.findall(r"(?:-o|--report) (\S+)", words):
        assert (home / path).stat().st_size > 0


def test_the_page_shows_commands_that_exist():
    shown = re.findall(
        r"^wsalign (.*?)(?:  +#.*)?$", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {words.split()[0] for words in shown} == set(ALL)
    for words in shown:
        command._parser().parse_args(words.split())


def test_python_m_align_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["align", "--help"])
    with pytest.raises(SystemExit):
        runpy.run_module("align", run_name="__main__")
    assert capsys.readouterr().out.startswith("usage: wsalign ")


def test_the_script_is_the_command():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["wsalign"].partition(":")
    assert getattr(importlib.import_module(module), function) is main


def test_repairs_are_those_of_merge():
    assert aligning.REPAIRS == REPAIRS


def test_errors_are_one_line_and_debug_shows_where(run):
    assert run("inspect no.pt") == (
        1,
        "",
        f"wsalign inspect: there is no file no.pt; expected {EXPECTED}\n",
    )
    with pytest.raises(FileNotFoundError, match="there is no file"):
        run("inspect no.pt --debug")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("a key with 'quotes'"), "wsalign inspect: a key with 'quotes'\n"),
        (RuntimeError("torch says"), "wsalign inspect: RuntimeError: torch says (--debug shows where)\n"),
        (ValueError(), "wsalign inspect: ValueError: no reason given (--debug shows where)\n"),
    ],
)
def test_every_error_has_words(error, text, run, monkeypatch):
    def fail(path):
        raise error

    monkeypatch.setattr("wsgraph.checkpoints.read_checkpoint", fail)
    assert run("inspect a.pt") == (1, "", text)


def test_interrupted(run, monkeypatch):
    def interrupt(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("wsgraph.checkpoints.read_checkpoint", interrupt)
    assert run("inspect a.pt") == (130, "", "interrupted; no file was left half written\n")


USAGE = {
    "inspect a.pt --example-input 2x3": "2x3 is no shape, expected one such as 2,3,32,32 or 2,16:tokens",
    "inspect a.pt --example-input 2,0": "2,0 is no shape, expected",
    "inspect a.pt --example-input 2,4:words": "2,4:words is no shape, expected",
    "draw a.pt -o a.txt": "a.txt is no picture, expected an ending of .png, .svg, .pdf",
    "barrier a.pt b.pt --data digits --report a.txt": "a.txt is no page, expected an ending of .html",
    "merge a.pt b.pt -o c.pt --weights 1,x": "1,x are no numbers, expected some such as 0.7,0.3",
    "match a.pt b.pt": "the following arguments are required: -o/--output",
}


@pytest.mark.parametrize("words", USAGE)
def test_a_wrong_command_line(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words.split())
    assert stopped.value.code == 2
    assert USAGE[words] in capsys.readouterr().err
