"""Train an aligner for a family of networks: ``python -m align.train +arch=mlp data=fashion_mnist``.

Missing data is fetched and missing networks are trained first. The result is a run folder with the aligner, its
metrics against the classic methods on held-out networks, pictures, and a report.
"""

from __future__ import annotations

import sys

from omegaconf import DictConfig

from .configuration import command, require_arch


@command("config")
def main(config: DictConfig) -> None:
    if "families" not in config:
        require_arch(config)
    import torch  # and all that needs it only now: a mere --help does not

    from wsgraph import plain

    from .learning import stages
    from .zoo.composed import FAILURES

    try:
        if config.threads is not None:
            torch.set_num_threads(plain.value(int, config.threads, "threads"))
        stages.run(config)
    except (*FAILURES, FloatingPointError, KeyboardInterrupt) as error:
        sys.exit(str(error) or "interrupted")


if __name__ == "__main__":
    main()
