"""``python -m align.benchmark speed`` and its kind."""

from __future__ import annotations

import argparse

import torch

from . import coverage, repair, speed, variants, zoo


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m align.benchmark", description="Measure what this package does.")
    commands = parser.add_subparsers(dest="command", required=True)
    fast = commands.add_parser("speed", help="seconds, memory and distance from the floor of the learned aligner")
    fast.add_argument("networks", nargs="*", help="only those whose name contains one of these words")
    chosen = []
    for kind, table in (("encoder", variants.ENCODER), ("training", variants.TRAINING)):
        command = commands.add_parser(kind, help=f"short trainings on digits that choose the {kind}'s settings")
        command.add_argument("variants", nargs="*", help=f"only these, of {list(table)}")
        command.add_argument("--steps", type=int, default=300, help="training steps of each variant")
        command.add_argument("--seeds", type=int, default=2, help="trainings of each variant")
        chosen.append(command)
    mended = commands.add_parser("repair", help="averages of ResNet-20s on CIFAR-10, repaired or not (trains for long)")
    mended.add_argument("--epochs", type=int, default=2, help="training epochs of each network")
    mended.add_argument("--width", type=float, default=1.0, help="width of the networks, 1 for 16-32-64 channels")
    many = commands.add_parser("zoo", help="networks trained at once, against one after another")
    many.add_argument("networks", nargs="*", help="only those whose name contains one of these words")
    many.add_argument("--repeats", type=int, default=5, help="measurements of each, of which the median counts")
    found = commands.add_parser("coverage", help="the symmetry found in many architectures, and planted permutations")
    found.add_argument("networks", nargs="*", help="only those whose name contains one of these words")
    found.add_argument("--large", action="store_true", help="instead, seconds and memory of a network of GPT-2's size")
    for command in (fast, *chosen, mended, many, found):
        command.add_argument("--threads", type=int, default=1, help="threads of torch (more than free cores is slower)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.command in ("encoder", "training"):
        variants.compare(args.command, args.variants, args.steps, args.seeds)
        return
    if args.command == "repair":
        repair.compare(args.epochs, args.width)
        return
    if args.command == "zoo":
        zoo.compare(args.networks, args.repeats)
        return
    if args.command == "coverage":
        coverage.large() if args.large else coverage.coverage(args.networks)
        return
    speed.speed(args.networks)
    if not args.networks:
        speed.batches()


if __name__ == "__main__":
    main()
