"""Fetch data sets into the cache folder, list them, say where they are.

    python -m align.data fetch cifar10
    python -m align.data list
    python -m align.data path

The folder is $WSGRAPH_DATA, or wsgraph in the user's cache folder.
"""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from wsgraph.folder import cache_folder

from .catalogue import CATALOGUE, Entry, entry
from .sources import FetchError


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 1 and a message on stderr if it fails."""
    args = _parser().parse_args(arguments)
    try:
        if args.command == "fetch":
            from .fetching import fetch  # here, for it brings torch

            for name in args.names:
                fetch(name, force=args.force)
        elif args.command == "list":
            Console().print(_table())
        else:
            sys.stdout.write(f"{entry(args.name).folder(cache_folder()) if args.name else cache_folder()}\n")
    except (FetchError, ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m align.data", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    fetching = commands.add_parser("fetch", help="put data sets into the cache folder, checksums verified")
    fetching.add_argument("names", nargs="+", metavar="name", help=", ".join(CATALOGUE))
    fetching.add_argument("--force", action="store_true", help="make it again although it is there")
    commands.add_parser("list", help="the data sets there are, and which are in the cache folder")
    where = commands.add_parser("path", help="the cache folder, or the folder of one data set in it")
    where.add_argument("name", nargs="?", help="a data set")
    return parser


def _table() -> Table:
    table = Table(title=f"Data sets in {cache_folder()}")
    for column in ("name", "train", "test", "shape", "status"):
        table.add_column(column, justify="right" if column in ("train", "test") else "left")
    for found in CATALOGUE.values():
        sizes = (f"{n:,}" for n in found.sizes)
        table.add_row(found.name, *sizes, " × ".join(map(str, found.shape)), _status(found))
    return table


def _status(found: Entry) -> str:
    if found.embedded:
        return "embedded"
    from .store import compact_path

    path = compact_path(found, cache_folder())
    if path.exists():
        return f"ready, {path.stat().st_size / 1e6:.0f} MB"
    return "not there; fetch gets it" if found.source else "not there; its files must be put there"


if __name__ == "__main__":
    sys.exit(main())
