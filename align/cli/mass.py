"""``wsalign many``: thousands of pairs at once, into one table."""

from __future__ import annotations

import argparse
import os
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

from .options import DATA, Report, Shape, add_command, add_method

if TYPE_CHECKING:
    from wsgraph.checkpoints import Checkpoint

MANY = """  wsalign many pairs.csv -o alignments --method weight_matching --workers 8
  wsalign many networks/ -o alignments                                      # all pairs of the files in a folder
  wsalign many networks/ -o alignments --model nets:Net --data data.safetensors   # with barriers
  wsalign many pairs.csv -o alignments --engine ray --address auto

The folder gets table.parquet (a row per pair: distances, barriers, seconds, and why a pair failed) and the permutations
in part-*.safetensors. Interrupted, even by kill -9, the same command goes on. pairs.csv has the columns a and b, paths
that are relative to its folder. On a cluster all nodes must see the networks under the same paths."""
ENGINES = ("processes", "ray")
READ = 64
"""Networks that a worker keeps in memory: a file is in many pairs."""


def add(commands: Any) -> None:
    text = "align thousands of pairs, in several processes or on a Ray cluster, into one table"
    parser = add_command(commands, "many", many, text, MANY)
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="a .csv file of pairs, or folders and files")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where table and permutations go")
    add_method(parser, "deep_align")
    parser.add_argument("--data", help=f"measure barriers on it: {DATA}")
    parser.add_argument("--points", type=int, default=11, help="of a barrier's line, both ends included; default: 11")
    parser.add_argument("--engine", choices=ENGINES, default="processes", help="where pairs are aligned")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes; default: one per core")
    parser.add_argument("--address", help="of a Ray cluster, or auto; default: Ray is started on this machine")
    parser.add_argument("--part", type=int, default=64, help="pairs that are written together; default: 64")


def many(args: argparse.Namespace) -> Report:
    """Align all pairs; a summary of the table."""
    from ..mass.driver import align_all
    from ..mass.job import Job
    from ..mass.pairs import pairs_of
    from ..methods.registry import methods_of

    if any(method.needs_data for method in methods_of(args.method)):
        raise ValueError(f"--method {args.method} learns from data, and here --data only judges; choose another method")
    pairs = pairs_of(args.sources)
    run = "barrier" if args.data else ""
    load = partial(_load, args.model, args.example_input, run)
    _try(load, pairs[0])
    judged = partial(_judged, args.data, args.example_input) if args.data else None
    words = {"model": args.model, "data": args.data, "points": args.points, "example_input": str(args.example_input)}
    job = Job(load, args.method, args.seed, judged, args.points)
    options = {"engine": args.engine, "workers": args.workers, "address": args.address, "size": args.part}
    return _summary(align_all(pairs, job, args.output, described=words, **options), args.output)


def _try(load: Any, pair: tuple[str, str]) -> None:
    """Open the first pair for what may have to be said of it; where it cannot be opened, its row will say so."""
    try:
        load(*pair)
    except (ValueError, KeyError, OSError, ImportError):
        return


def _load(model: str | None, shape: Shape | None, run: str, a: str, b: str) -> tuple[Any, Any, dict[str, Any]]:
    from .networks import understood

    found = understood(argparse.Namespace(model=model, example_input=shape), [_read(a), _read(b)], run)
    first, second = found.all
    return first, second, found.symmetry


@lru_cache(maxsize=READ)
def _read(path: str) -> Checkpoint:
    from wsgraph.checkpoints import read_checkpoint

    return read_checkpoint(path)


@cache
def _judged(data: str, shape: Shape | None) -> Any:
    from ..running.outputs import loss_of
    from .samples import to_be_judged_on

    found = to_be_judged_on(data, shape)
    return found, loss_of(found[1])


def _summary(results: Any, folder: str) -> Report:
    import pyarrow.compute as pc

    table = results.table
    failed = table.filter(pc.is_valid(table["error"]))
    means = {
        name: pc.mean(table[name]).as_py() for name in ("distance_before", "distance", "barrier_before", "barrier")
    }
    report = {"output": folder, "pairs": len(table), "failed": len(failed), **means}
    lines = [f"{len(table)} pairs, {len(failed)} failed; mean distance {_shown(means, 'distance')}"]
    if means["barrier"] is not None:
        lines.append(f"mean barrier {_shown(means, 'barrier')}")
    if len(failed):
        row = failed.slice(0, 1).to_pylist()[0]
        lines.append(f"the first that failed: {row['a']} and {row['b']}: {row['error']}")
    return Report(report, [*lines, f"written: {folder}/table.parquet"])


def _shown(means: dict[str, float | None], name: str) -> str:
    before, after = means[f"{name}_before"], means[name]
    return "unknown" if before is None or after is None else f"{before:.4g} before, {after:.4g} after"
