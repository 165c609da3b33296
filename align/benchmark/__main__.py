"""``python -m align.benchmark speed``"""

from __future__ import annotations

import argparse

import torch

from . import speed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m align.benchmark", description="Measure what this package does.")
    commands = parser.add_subparsers(dest="command", required=True)
    fast = commands.add_parser("speed", help="seconds, memory and distance from the floor of the learned aligner")
    fast.add_argument("networks", nargs="*", help="only those whose name contains one of these words")
    fast.add_argument("--threads", type=int, default=1, help="threads of torch (more than free cores is slower)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    speed.speed(args.networks)
    if not args.networks:
        speed.batches()


if __name__ == "__main__":
    main()
