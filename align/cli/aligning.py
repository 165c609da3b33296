"""``wsalign match`` and ``wsalign merge``: networks in, a network out."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .options import DATA, Report, add_command, add_method, add_report, numbers

if TYPE_CHECKING:
    from ..alignment import Alignment
    from .networks import Networks

MATCH = """  wsalign match a.safetensors b.safetensors -o aligned.safetensors
  wsalign match a.pt b.pt -o aligned.pt --model nets:Net --method weight_matching
  wsalign match a.pt b.pt -o aligned.pt --model nets:Net --report match.html
  wsalign match a.pt b.pt -o aligned.pt --model nets:Net --data data.safetensors --json

The result computes the same function as the second network; only its neurons are in the order of the first's.
Types, metadata, the order of entries, and entries that the network does not know, stay as they are."""
MERGE = """  wsalign merge a.safetensors b.safetensors -o merged.safetensors
  wsalign merge a.safetensors b.safetensors c.safetensors -o merged.safetensors
  wsalign merge a.pt b.pt -o merged.pt --weights 0.7,0.3 --method weight_matching
  wsalign merge a.pt b.pt -o merged.pt --model nets:Net --repair repair --data data.safetensors

Networks are aligned to the first one, then averaged. --method identity averages them as they are."""
REPAIRS = ("none", "batchnorm", "repair")


def add(commands: Any) -> None:
    text = "permute the second network's neurons to match the first's; its function stays the same"
    parser = add_command(commands, "match", match, text, MATCH)
    parser.add_argument("a", metavar="A", help="the reference")
    parser.add_argument("b", metavar="B", help="the network to permute")
    _add_output(parser, "B")
    add_report(parser)
    add_method(parser, "auto")
    parser.add_argument("--data", help=f"for methods that run the networks: noise, dreams, pictures, {DATA}")

    parser = add_command(commands, "merge", merge, "align two or more networks, then average their weights", MERGE)
    parser.add_argument("a", metavar="A", help="the reference")
    parser.add_argument("others", metavar="B", nargs="+", help="networks to align and average with it")
    _add_output(parser, "A")
    add_method(parser, None)
    parser.add_argument("--weights", type=numbers, metavar="W,W", help="what each counts for; default: the same")
    text = "batchnorm: measure its statistics anew; repair: set every layer's mean and deviation right; need --data"
    parser.add_argument("--repair", choices=REPAIRS, default="none", help=text)
    parser.add_argument("--data", help=f"for the repair and for methods that run the networks: {DATA}")


def _add_output(parser: argparse.ArgumentParser, like: str) -> None:
    text = f"where the result goes: .safetensors, .pt, or a new folder where {like} is a folder"
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help=text)


def match(args: argparse.Namespace) -> Report:
    """Write b, permuted to match a."""
    from wsgraph.checkpoints import require_output

    from ..matching import match as find
    from .networks import load, question, require_folders
    from .samples import to_learn_from

    require_folders(args.report)
    networks = load(args, [args.a, args.b], _runs(args.method))
    first, second = networks.loaded
    require_output(args.output, second.checkpoint.path)
    data = to_learn_from(args.data, args.example_input)
    alignment = find(first.network, second.network, args.method, data=data, **question(args, networks))
    before = find(first.network, second.network, "identity", **networks.symmetry).distance
    after = alignment.distance
    second.write(alignment.permutation.permute, args.output)
    tried = [{"method": c.method, "score": c.score, "seconds": c.elapsed, "kept": c.kept} for c in alignment.candidates]
    report = {
        "output": args.output,
        "method": alignment.method,
        "converged": alignment.converged,
        "seconds": alignment.elapsed,
        "distance": {"before": before, "after": after},
        "candidates": tried,
    }
    lines = [
        str(alignment),
        f"distance of the weights: {before:.4g} before, {after:.4g} after",
        f"written: {args.output}",
    ]
    if args.report is not None:
        _write_report(args, alignment, lines)
        report["report"] = str(args.report)
        lines.append(f"report: {args.report}")
    return Report(report, lines)


def _write_report(args: argparse.Namespace, alignment: Alignment, lines: list[str]) -> None:
    from ..reporting.page import heading, paragraph, table, write_page

    moved = [(name, len(idx), sum(int(j) != i for i, j in enumerate(idx))) for name, idx in alignment.maps.items()]
    parts = [paragraph(f"A is {args.a}, B is {args.b}: how B's neurons are permuted to match those of A.")]
    parts += [paragraph(line) for line in lines]
    parts += [
        heading("Groups of neurons"),
        table(("group", "neurons", "moved"), [tuple(map(str, row)) for row in moved]),
    ]
    tried = [(c.method, "–" if c.score is None else f"{c.score:.4g}", f"{c.elapsed:.2f}") for c in alignment.candidates]
    if tried:
        parts += [heading("What was tried"), table(("method", "loss half way", "seconds"), tried)]
    write_page(args.report, "Two networks, aligned", parts)


def merge(args: argparse.Namespace) -> Report:
    """Write the average of a and the others, aligned to it."""
    from wsgraph.checkpoints import require_output
    from wsgraph.modules import tensors_of

    from ..merging.merge import merge as average
    from .networks import load, question
    from .samples import to_learn_from

    repairs = f"--repair {args.repair}" if args.repair != "none" else ""
    if repairs and args.data in (None, "noise", "dreams", "pictures"):
        raise ValueError(f"{repairs} measures activations: pass --data, {DATA}")
    method = args.method or ("auto" if len(args.others) == 1 else "weight_matching")
    networks = load(args, [args.a, *args.others], repairs or _runs(method))
    reference = networks.loaded[0]
    require_output(args.output, reference.checkpoint.path)
    data = to_learn_from(args.data, args.example_input)
    moved = _aligned(networks, method, data, question(args, networks))
    options = {"repair": args.repair, "data": _inputs(data)} if repairs else {}
    merged = average(reference.network, *moved, weights=args.weights, **options)
    tensors = merged if isinstance(merged, dict) else tensors_of(merged)
    reference.write(lambda name, _: tensors[name], args.output)
    count = 1 + len(args.others)
    shown = f"{count} networks, aligned by {method} and averaged (repair: {args.repair})"
    report = {"output": args.output, "method": method, "repair": args.repair, "networks": count}
    return Report(report, [shown, f"written: {args.output}"])


def _aligned(networks: Networks, method: str, data: Any, options: dict[str, Any]) -> list[Any]:
    """All networks but the first, permuted to match it; three or more are matched all with all."""
    from ..many import match_many
    from ..matching import match as find
    from ..methods.registry import takes

    first, *others = networks.all
    if data is not None and takes(method, "data"):
        options["data"] = data
    if len(others) == 1:
        return [find(first, others[0], method, **options).apply(others[0])]
    strategy = "reference" if method == "identity" else "universe"
    universe = match_many(networks.all, strategy, method=method, **options)
    return [universe.between(0, k + 1).apply(other) for k, other in enumerate(others)]


def _runs(method: str) -> str:
    """What runs the networks, in words; nothing where tensors may be enough."""
    from ..methods.registry import takes

    return f"--method {method}" if method != "auto" and takes(method, "data") else ""


def _inputs(data: Any) -> Any:
    return data[0] if isinstance(data, tuple) else data
