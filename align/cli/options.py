"""What the commands have in common: how they are declared, and what they report."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = "wsalign"
PICTURES = (".png", ".svg", ".pdf")
METHODS = (
    "auto, weight_matching, covariance_matching, deep_align, activation_matching, ste, sinkhorn, identity, or several "
    "joined by +"
)
DATA = (
    "digits, mnist, fashion_mnist, cifar10, stl10, a .safetensors file with the entries inputs and targets, a Dataset "
    "as package.module:name, or a folder of images with a folder per class"
)


@dataclass(frozen=True)
class Report:
    """What a command found.

    Attributes:
        data: As plain data, for ``--json``.
        shown: The same for people: lines and tables.
    """

    data: dict[str, Any]
    shown: list[Any]


@dataclass(frozen=True)
class Shape:
    """Of an example input, batch first; ``tokens`` are whole numbers."""

    sizes: tuple[int, ...]
    tokens: bool


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], Report], text: str, examples: str
) -> argparse.ArgumentParser:
    """A command with the options that all have; ``examples`` end its help."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument("--debug", action="store_true", help="on failure, show where in the code")
    parser.add_argument(
        "--model",
        metavar="MODULE:NAME",
        help="class of the networks, or a function that makes one, as package.module:Name; called without arguments",
    )
    parser.add_argument(
        "--example-input",
        type=shape,
        metavar="SHAPE",
        help="what the networks are called with, batch first, as 2,3,32,32 or 2,16:tokens; needed if it cannot be told",
    )
    return parser


def add_method(parser: argparse.ArgumentParser, default: str | None) -> None:
    parser.add_argument("--method", default=default, help=f"{METHODS}; default: {default or 'by number of networks'}")
    text = "folder of an aligner of your own (output= of align.train) in place of the pretrained one, for deep_align"
    parser.add_argument("--aligner", metavar="FOLDER", help=text)
    parser.add_argument("--seed", type=int, default=0, help="of everything drawn; default: 0")


def add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--report", type=html_page, metavar="PAGE", help="write all of it as a page of one file, .html")


def html_page(text: str) -> Path:
    """The path of a page, by its ending."""
    if Path(text).suffix.lower() not in (".html", ".htm"):
        raise argparse.ArgumentTypeError(f"{text} is no page, expected an ending of .html")
    return Path(text)


def shape(text: str) -> Shape:
    """``2,3,32,32`` or ``2,16:tokens`` as a :class:`Shape`."""
    numbers, _, kind = text.partition(":")
    sizes = [int(n) if n.isdecimal() else 0 for n in numbers.split(",")]
    if min(sizes) < 1 or kind not in ("", "tokens"):
        raise argparse.ArgumentTypeError(f"{text} is no shape, expected one such as 2,3,32,32 or 2,16:tokens")
    return Shape(tuple(sizes), bool(kind))


def picture(text: str) -> Path:
    """The path of a picture, by its ending."""
    if Path(text).suffix.lower() not in PICTURES:
        raise argparse.ArgumentTypeError(f"{text} is no picture, expected an ending of {', '.join(PICTURES)}")
    return Path(text)


def numbers(text: str) -> list[float]:
    """Numbers with commas between them."""
    try:
        return [float(n) for n in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} are no numbers, expected some such as 0.7,0.3") from None
