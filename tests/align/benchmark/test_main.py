"""The command knows its measurements, and says what it does not know."""

import sys
from pathlib import Path

import pytest

from align.benchmark.__main__ import main

ZERO_SHOT = Path("results/zero-shot")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["zoo", "digits", "--repeats", "2"], ("zoo", ["digits"], 2)),
        (["repair", "--width", "0.5"], ("repair", 2, 0.5)),
        (["training", "--steps", "7", "default"], ("variants", "training", ["default"], 7, 2)),
        (["coverage", "vgg", "--page", "x.md"], ("coverage", ["vgg"], Path("x.md"))),
        (["coverage", "--model", "mine:net"], ("own", "mine:net")),
        (["trace-speed", "old", "--repeats", "1"], ("trace_speed", Path("old"), [], 1)),
        (["zoos", "mlp"], ("zoos", ["mlp"])),
        (["many"], ("many",)),
        (["zero-shot"], ("zero_shot", [], ZERO_SHOT)),
        (["zero-shot", "rows", "LSTM", "--output", "x"], ("zero_shot", ["LSTM"], Path("x"))),
        (["zero-shot", "transfer", "depth"], ("transfer", ["depth"], ZERO_SHOT / "transfer")),
        (["zero-shot", "leave-one-out", "--steps", "9"], ("left_out", [], ZERO_SHOT / "leave-one-out", 9)),
        (["card", "run"], ("card", Path("run"), ZERO_SHOT)),
    ],
)
def test_every_command_reaches_its_measurement(words, expected, monkeypatch):
    seen = []
    named = {"zoo": "compare", "repair": "compare", "variants": "compare", "coverage": "coverage", "many": "compare"}
    named["zoos"] = "compare"
    named |= {"own": "describe", "trace_speed": "compare"}
    named |= {"zero_shot": "zero_shot", "transfer": "transfer", "left_out": "leave_one_out", "card": "write"}
    for module, name in named.items():
        monkeypatch.setattr(f"align.benchmark.{module}.{name}", lambda *args, m=module: seen.append((m, *args)))
    monkeypatch.setattr(sys, "argv", ["align.benchmark", *words])
    main()
    assert seen == [expected]


def test_unknown_variants_are_told_before_anything_is_trained(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["align.benchmark", "encoder", "1 sweep", "9 sweeps"])
    with pytest.raises(SystemExit, match=r"no variants \['9 sweeps'\]; choose among \['default', '1 sweep'"):
        main()


def test_an_interrupted_contest_says_that_it_goes_on(monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("align.benchmark.transfer.transfer", interrupted)
    monkeypatch.setattr(sys, "argv", ["align.benchmark", "zero-shot", "transfer"])
    with pytest.raises(SystemExit, match="interrupted; the same command goes on"):
        main()
