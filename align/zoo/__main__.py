"""Build zoos: ``python -m align.zoo +arch=mlp data=fashion_mnist count=256``.

The same command starts a zoo, goes on with it after an interruption, repairs damaged shards, and, with a larger count,
adds networks to it. ``python -m align.zoo folder=<a zoo's folder>`` does so for a zoo that exists already, and needs
``+arch.make=package.module:Class`` if its networks are of a class of your own.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table

from ..configuration import command, require_arch
from .summary import COLUMNS, cells

if TYPE_CHECKING:
    from .zoo import Zoo


def summary(zoos: list[Zoo]) -> Table:
    """Number and quality of the networks."""
    table = Table(title="zoos")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "zoo" else "right")
    for zoo in zoos:
        table.add_row(*cells(zoo))
    return table


@command("zoo")
def main(config: DictConfig) -> None:
    arch = config.get("arch", {})
    known = config.folder is not None and set(arch) <= {"make"}
    if not known:
        require_arch(config)
    from .architectures import own_class  # here, for they bring torch, which a mere --help does not need
    from .building import build
    from .composed import FAILURES, build_zoos
    from .zoo import Zoo

    try:
        if known:
            zoo = Zoo(config.folder, make=own_class(arch.make) if arch else None)
            count = max(zoo.records) + 1 if OmegaConf.is_interpolation(config, "count") else config.count
            zoos = [build(zoo.config, count, zoo.folder, config.engine, config.workers, config.address)]
        else:
            zoos = build_zoos(config, config)
    except FAILURES as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on")
    console = Console(markup=False)  # brackets in a path are no markup
    console.print(summary(zoos))
    for zoo in zoos:
        console.print(str(zoo.folder), soft_wrap=True)


if __name__ == "__main__":
    main()
