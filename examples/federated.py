"""Federated learning on Flower: clients are aligned before they are averaged, or not.

    python examples/federated.py --quick                     # a minute
    python examples/federated.py --data fashion_mnist        # 20 clients, 5 a round, 20 rounds
    python examples/federated.py --one-initialisation --alpha 0
    python examples/federated.py --paper --clients 100       # CIFAR-10, 1,000 rounds: for a machine with many cores

Clients first train networks of their own, so that round 1 averages strangers. Every client runs on a worker of Ray.
"""

import argparse
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

# Before Flower and Ray are imported: nothing is reported to anybody.
for name, value in {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}.items():
    os.environ.setdefault(name, value)
sys.path.insert(0, str(Path(__file__).parent / "federated"))  # the Flower app, which `flwr run` runs as well

from federation.client_app import app as client_app  # noqa: E402
from federation.server_app import serve  # noqa: E402
from federation.settings import Settings  # noqa: E402
from flwr.app import Context  # noqa: E402
from flwr.serverapp import Grid, ServerApp  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402

from align.plots import add_output, plot_curves  # noqa: E402

PAPER = Settings("cifar10", rounds=1000, alone=0, alpha=0.0)


def main() -> None:
    args = options()
    settings = PAPER if args.paper else Settings(args.data, rounds=args.rounds, alpha=args.alpha)
    settings = replace(settings, sampled=min(settings.sampled, args.clients))
    if args.one_initialisation:
        settings = replace(settings, alone=0)
    if args.quick:
        settings = replace(settings, rounds=2, sampled=3, steps=20, alone=60)
    methods = {"FedAvg": "none"} | {name: name for name in args.methods}
    curves: dict[str, list[float]] = {}
    server_app = ServerApp()

    @server_app.main()
    def compare(grid: Grid, _context: Context) -> None:
        for label, method in methods.items():
            curves[label] = serve(grid, replace(settings, method=method))

    logging.getLogger("flwr").setLevel(logging.INFO if args.verbose else logging.ERROR)
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": args.cores}}
    run_simulation(server_app, client_app, args.clients, backend_config=resources)
    for label, accuracies in curves.items():
        print(f"{label:20}", " ".join(f"{accuracy:.1%}" for accuracy in accuracies[:: max(1, settings.rounds // 10)]))
    shown = {label: (list(range(len(values))), values) for label, values in curves.items()}
    plot_curves(shown, args.output, "round", "accuracy of the global network", f"{args.clients} clients")
    print(f"picture: {args.output}")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=("digits", "fashion_mnist", "cifar10"), default="digits")
    parser.add_argument("--methods", nargs="+", default=["weight_matching", "deep_align"], help="as in align.match")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--alpha", type=float, default=0.3, help="of the Dirichlet split; 0 for IID clients")
    parser.add_argument("--one-initialisation", action="store_true", help="all clients start from one network")
    parser.add_argument("--paper", action="store_true", help="the paper's protocol on CIFAR-10; 50, 100 or 200 clients")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="clients that train at the same time")
    parser.add_argument("--verbose", action="store_true", help="show Flower's log")
    parser.add_argument("--quick", action="store_true", help="two rounds of a few clients")
    add_output(parser, __file__)
    args = parser.parse_args()
    if args.quick:
        args.clients, args.methods, args.cores = 4, args.methods[:1], 1
    return args


if __name__ == "__main__":
    main()
