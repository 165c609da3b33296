"""``wsalign inspect`` and ``wsalign draw``: what is in a file."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any

from .options import Report, add_command, picture

if TYPE_CHECKING:
    from wsgraph import Spec
    from wsgraph.checkpoints import Checkpoint

INSPECT = """  wsalign inspect a.safetensors
  wsalign inspect a.pt --model nets:Net --example-input 2,4
  wsalign inspect a.safetensors --json"""
DRAW = """  wsalign draw a.safetensors -o network.png
  wsalign draw a.pt --model nets:Net -o network.svg"""


def add(commands: Any) -> None:
    text = "say what is in a file: types, metadata, and which neurons can be permuted"
    parser = add_command(commands, "inspect", inspect, text, INSPECT)
    parser.add_argument("file", metavar="FILE", help="a network")
    parser = add_command(commands, "draw", draw, "draw a small network: a column per layer, a line per weight", DRAW)
    parser.add_argument("file", metavar="FILE", help="a network")
    parser.add_argument("-o", "--output", type=picture, required=True, metavar="PICTURE", help=".png, .svg or .pdf")


def inspect(args: argparse.Namespace) -> Report:
    """A file's facts, and the symmetry of its network or why it is not known."""
    from wsgraph.checkpoints import read_checkpoint

    from .networks import understood

    checkpoint = read_checkpoint(args.file)
    facts = _facts(checkpoint)
    try:
        networks = understood(args, [checkpoint])
        spec, names = networks.graph.spec, networks.loaded[0].names
    except (ValueError, ImportError) as error:
        if args.model is not None:
            raise
        return Report({**facts, "groups": None, "unknown": None, "problem": str(error)}, [*_lines(facts), str(error)])
    unknown = [name for name in checkpoint.tensors if names.get(name, name) not in spec.params]
    more = [f"kept as they are, for the network does not know them: {', '.join(unknown)}"] if unknown else []
    data = {**facts, "groups": _groups(spec), "unknown": unknown, "problem": None}
    return Report(data, [*_lines(facts), "", str(spec), *more])


def draw(args: argparse.Namespace) -> Report:
    """A picture of a network."""
    from wsgraph import draw as picture_of

    from .networks import load, require_folders

    require_folders(args.output)
    picture_of(load(args, [args.file]).graph, args.output)
    return Report({"picture": str(args.output)}, [f"picture: {args.output}"])


def _facts(checkpoint: Checkpoint) -> dict[str, Any]:
    tensors = checkpoint.tensors
    kinds = Counter(str(tensor.dtype).removeprefix("torch.") for tensor in tensors.values())
    return {
        "file": str(checkpoint.path),
        "entries": len(tensors),
        "weights": sum(tensor.numel() for tensor in tensors.values()),
        "types": dict(kinds),
        "metadata": checkpoint.meta,
    }


def _lines(facts: dict[str, Any]) -> list[str]:
    kinds = ", ".join(f"{count} of {kind}" for kind, count in facts["types"].items())
    lines = [f"{facts['file']}: {facts['weights']:,} numbers in {facts['entries']} entries ({kinds})"]
    return lines + [f"{key}: {value}" for key, value in facts["metadata"].items()]


def _groups(spec: Spec) -> list[dict[str, Any]]:
    return [
        {"name": group.name, "size": group.size, "pinned": group.why or None, "activation": group.activation}
        for group in spec.groups.values()
    ]
