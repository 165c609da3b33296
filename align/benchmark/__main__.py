"""``python -m align.benchmark speed`` and its kind."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from ..configuration import choices
from .changes import VARIANTS

WORDS = "only those whose name contains one of these words"
OWN = "instead, a model of your own: a function that returns it, or it and an example input; a page for an issue"
TABLES = "rows: unseen families; transfer: one thing changes; leave-one-out: short trainings without a kind of networks"


def main() -> None:
    args = _parser().parse_args()
    import torch  # and all that needs it only now: help comes at once

    torch.set_num_threads(args.threads)
    args.run(args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m align.benchmark", description="Measure what this package does.")
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name: str, run: Callable[[argparse.Namespace], None], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text)
        command.set_defaults(run=run)
        command.add_argument("--threads", type=int, default=1, help="threads of torch (more than free cores is slower)")
        return command

    shown = add("demo", _demo, "the table of make demo: every method on two small networks")
    shown.add_argument("--seed", type=int, default=0, help="of networks and methods")
    fast = add("speed", _speed, "seconds, memory and distance from the floor of the learned aligner")
    fast.add_argument("networks", nargs="*", help=WORDS)
    for kind, table in VARIANTS.items():
        chosen = add(kind, _variants, f"short trainings on digits that choose the {kind}'s settings")
        chosen.set_defaults(kind=kind)
        chosen.add_argument("variants", nargs="*", help=f"only these, of {list(table)}")
        chosen.add_argument("--steps", type=int, default=300, help="training steps of each variant")
        chosen.add_argument("--seeds", type=int, default=2, help="trainings of each variant")
    mended = add("repair", _repair, "averages of ResNet-20s on CIFAR-10, repaired or not (trains for long)")
    mended.add_argument("--epochs", type=int, default=2, help="training epochs of each network")
    mended.add_argument("--width", type=float, default=1.0, help="width of the networks, 1 for 16-32-64 channels")
    many = add("zoo", _zoo, "networks trained at once, against one after another")
    many.add_argument("networks", nargs="*", help=WORDS)
    many.add_argument("--repeats", type=int, default=5, help="measurements of each, of which the median counts")
    kept = add("zoos", _zoos, "number and quality of the networks of all zoos that are there")
    kept.add_argument("networks", nargs="*", help=WORDS)
    add("many", _many, "eight networks in one frame, seen at once, pair by pair, or by weight matching")
    found = add("coverage", _coverage, "the symmetry found in many architectures, and planted permutations")
    found.add_argument("networks", nargs="*", help=WORDS)
    found.add_argument("--page", type=Path, help="page whose table of these columns is replaced: docs/coverage.md")
    found.add_argument("--model", metavar="PACKAGE.MODULE:FACTORY", help=OWN)
    found.add_argument("--large", action="store_true", help="instead, seconds and memory of a network of GPT-2's size")
    sizes = add("widths", _widths, "narrow and wide networks, merged and cut, beside their parents")
    sizes.add_argument("arch", nargs="?", choices=("mlp", "cnn"), default="mlp", help="default: mlp")
    sizes.add_argument("--data", choices=("digits", "fashion_mnist"), default="digits", help="default: digits")
    sizes.add_argument("--pairs", type=int, default=4, help="of a narrow and a wide network; default: 4")
    mapped = add("large", _large, "wsalign match of checkpoints of GPT-2's and TinyLlama's size (7 GB of disk)")
    mapped.add_argument("networks", nargs="*", help=WORDS)
    traced = add("trace-speed", _trace_speed, "CPU seconds of a trace beside those of another version of this package")
    traced.add_argument("other", type=Path, help="checkout of the other version: git worktree add FOLDER COMMIT")
    traced.add_argument("networks", nargs="*", help=WORDS)
    traced.add_argument("--repeats", type=int, default=3, help="alternations, of which the shortest times count")
    shared = add("threads", _threads, "threads that share networks: answers as if alone, networks as they were")
    shared.add_argument("--calls", type=int, default=200, help="calls of each function by each of the eight threads")
    unseen = add("zero-shot", _zero_shot, "the bundled aligner beside the classic methods on unseen families")
    unseen.add_argument("table", nargs="?", choices=("rows", "transfer", "leave-one-out"), default="rows", help=TABLES)
    unseen.add_argument("networks", nargs="*", help=WORDS)
    unseen.add_argument("--output", type=Path, default=Path("results/zero-shot"), help="folder for table and pictures")
    unseen.add_argument("--steps", type=int, default=1_500, help="training steps of each aligner (leave-one-out)")
    again = add("paper", _paper, "the paper's tables and figures, beside its own numbers (configs/benchmark)")
    again.add_argument("experiment", help=f"one of {', '.join(choices('benchmark'))}")
    again.add_argument("settings", nargs="*", help="such as scale=smoke (or laptop, the default, or paper), pairs=4")
    again.add_argument("--output", type=Path, default=Path("results"), help="tables and pictures go below this folder")
    rounds = add("federated", _federated, "accuracy by round, clients aligned before averaging or not (an hour)")
    rounds.add_argument("data", nargs="*", help="only data sets whose name contains one of these words")
    rounds.add_argument("--rounds", type=int, default=100, help="of each federation")
    rounds.add_argument("--seeds", type=int, default=3, help="federations of each method")
    rounds.add_argument("--steps", type=int, default=50, help="local steps of a client in a round")
    rounds.add_argument("--lr", type=float, default=1e-3, help="learning rate of the clients")
    rounds.add_argument("--alpha", type=float, default=0.3, help="of the clients' Dirichlet split; 0 for none (IID)")
    rounds.add_argument("--output", type=Path, default=Path("results/federated"), help="folder for table and pictures")
    card = add("card", _card, "write the model card of the bundled aligner from its run folder and zero-shot results")
    card.add_argument(
        "folder", type=Path, nargs="?", help="of the training that made it (output= of align.train); else only results"
    )
    card.add_argument("--results", type=Path, default=Path("results/zero-shot"), help="folder of zero-shot results")
    page = add("page", _page, "write the tables of results/ into the page that has places for them")
    page.add_argument("page", type=Path, nargs="?", default=Path("docs/results.md"), help="default: docs/results.md")
    page.add_argument("--results", type=Path, default=Path("results"), help="folder of the tables")
    page.add_argument("--compare", action="store_true", help="instead, say how far its numbers are from those there")
    return parser


def _page(args: argparse.Namespace) -> None:
    from rich.console import Console

    from .agreement import compare
    from .page import fill

    try:
        if args.compare:
            return compare(args.page, args.results)
        found = fill(args.page, args.results)
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    for name, there in found.items():
        Console(markup=False).print(f"{name}: {'written' if there else 'not there, left as it was'}", soft_wrap=True)


def _zero_shot(args: argparse.Namespace) -> None:
    from ..zoo.composed import FAILURES

    try:
        _unseen(args)
    except (*FAILURES, KeyboardInterrupt) as error:
        sys.exit(str(error) or "interrupted; the same command goes on")


def _unseen(args: argparse.Namespace) -> None:
    if args.table == "rows":
        from . import zero_shot

        zero_shot.zero_shot(args.networks, args.output)
    elif args.table == "transfer":
        from . import transfer

        transfer.transfer(args.networks, args.output / "transfer")
    else:
        from . import left_out

        left_out.leave_one_out(args.networks, args.output / "leave-one-out", args.steps)


def _paper(args: argparse.Namespace) -> None:
    from hydra.errors import HydraException

    from ..zoo.composed import FAILURES
    from .paper import experiments

    try:
        experiments.run(args.experiment, args.settings, args.output)
    except (*FAILURES, HydraException, FloatingPointError, KeyboardInterrupt) as error:
        sys.exit(str(error) or "interrupted; the same command goes on")


def _federated(args: argparse.Namespace) -> None:
    from ..zoo import Recipe
    from . import federated
    from .clients import Protocol

    try:
        recipe = Recipe(batch=32, lr=args.lr)
        protocol = Protocol(alpha=args.alpha or None, steps=args.steps, recipe=recipe)
        federated.federated(args.data, args.output, args.rounds, args.seeds, protocol)
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on")


def _card(args: argparse.Namespace) -> None:
    from . import card

    card.write(args.folder, args.results)


def _demo(args: argparse.Namespace) -> None:
    from . import demo

    demo.compare(args.seed)


def _speed(args: argparse.Namespace) -> None:
    from . import speed

    speed.speed(args.networks)
    if not args.networks:
        speed.batches()


def _variants(args: argparse.Namespace) -> None:
    from . import variants

    variants.compare(args.kind, args.variants, args.steps, args.seeds)


def _repair(args: argparse.Namespace) -> None:
    from . import repair

    repair.compare(args.epochs, args.width)


def _zoo(args: argparse.Namespace) -> None:
    from . import zoo

    zoo.compare(args.networks, args.repeats)


def _zoos(args: argparse.Namespace) -> None:
    from . import zoos

    zoos.compare(args.networks)


def _many(args: argparse.Namespace) -> None:
    from . import many

    many.compare()


def _coverage(args: argparse.Namespace) -> None:
    from . import coverage

    if args.model is not None:
        from . import own

        own.describe(args.model)
    elif args.large:
        coverage.large()
    else:
        coverage.coverage(args.networks, args.page)


def _trace_speed(args: argparse.Namespace) -> None:
    from . import trace_speed

    trace_speed.compare(args.other, args.networks, args.repeats)


def _widths(args: argparse.Namespace) -> None:
    from . import widths

    widths.compare(args.arch, args.data, args.pairs)


def _large(args: argparse.Namespace) -> None:
    from . import large

    large.large(args.networks)


def _threads(args: argparse.Namespace) -> None:
    from . import threads

    threads.compare(args.calls)


if __name__ == "__main__":
    main()
