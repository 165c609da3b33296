"""``python -m tests.reliability fuzz`` and its kind; with ``--write`` the result goes into docs/reliability.md."""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import warnings

SHARES = {
    "Spec, JSON": 0.12, "zoo.json": 0.12, "config.json of an aligner": 0.28, "labels, JSON": 0.13, "IDX": 0.2,
    "permutation": 0.15,
}  # fmt: skip
"""Of the inputs for the readers of JSON, IDX and permutations, how many each gets."""
MEMORY = 8 << 30
"""Bytes that a reader may ask for; more is a failure, not the end of the machine."""


def run_fuzz(args: argparse.Namespace) -> None:
    from .fuzzing import PATIENCE, fuzz
    from .page import table, write_section
    from .targets import TARGETS

    def stuck(*_: object) -> None:
        raise TimeoutError(f"no answer within {PATIENCE} seconds")

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, stuck)
    warnings.simplefilter("ignore")
    rest = [name for name in TARGETS if name not in SHARES]
    inputs = {name: int(share * args.inputs) for name, share in SHARES.items()}
    inputs |= {name: args.others // len(rest) for name in rest}
    rows, failures = [], []
    for name in TARGETS:
        found = fuzz(name, inputs[name], args.seconds / len(TARGETS), args.seed)
        failures += [f"{name}: {text}" for text in found.failures]
        counts = (found.inputs, found.read, len(found.answers), len(found.failures))
        rows.append([name, *(f"{n:,}" for n in counts), f"{1000 * found.seconds / max(found.inputs, 1):.2f}"])
        sys.stderr.write(f"{' | '.join(rows[-1])}\n")
    if args.write:
        columns = ("reader", "inputs", "of which read", "kinds of answers", "failures", "ms each")
        write_section("fuzz", table(columns, rows))
    if failures:
        sys.exit("\n".join(failures) + "\nThe contents are in tests/reliability/corpus as failure-*.")


def run_memory(args: argparse.Namespace) -> None:
    from .memory import soak
    from .page import write_section

    before, after, seconds = soak(args.count, args.count // 10)
    change = after / before - 1
    text = (
        f"{args.count:,} alignments in one process took {seconds:,.0f} s; after a tenth it had {before:.0f} MB, "
        f"at the end {after:.0f} MB ({change:+.1%})."
    )
    sys.stderr.write(text + "\n")
    if args.write:
        write_section("memory", text)
    if abs(change) > 0.05:
        sys.exit("memory changed by more than 5 %")


def run_faults(args: argparse.Namespace) -> None:
    from .faults import COLUMNS, all_faults
    from .page import table, write_section

    rows = all_faults()
    if args.write:
        write_section("faults", table(COLUMNS, [row.cells for row in rows]))
    if bad := [row for row in rows if not row.good]:
        sys.exit("\n".join(f"{' | '.join(row.cells)}\n{row.output}" for row in bad))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    commands = parser.add_subparsers(required=True)
    damaged = commands.add_parser("fuzz", help="readers against damaged and hostile files")
    damaged.add_argument(
        "--seconds", type=float, default=7200, help="of the processor, of all readers together, at most"
    )
    damaged.add_argument("--inputs", type=int, default=1_000_000, help="for the readers of JSON, IDX and permutations")
    damaged.add_argument("--others", type=int, default=70_000, help="for all other readers")
    damaged.add_argument("--seed", type=int, default=0)
    damaged.set_defaults(run=run_fuzz)
    long = commands.add_parser("memory", help="many alignments in one process")
    long.add_argument("--count", type=int, default=10_000)
    long.set_defaults(run=run_memory)
    broken = commands.add_parser("faults", help="kill, full disk, read-only folder, two at once")
    broken.set_defaults(run=run_faults)
    for command in (damaged, long, broken):
        command.add_argument("--write", action="store_true", help="put the result into docs/reliability.md")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
