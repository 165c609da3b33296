"""The server: it aligns the clients' networks and averages them."""

from __future__ import annotations

import random
from dataclasses import asdict

from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Strategy

from align.federated import AlignedFedAvg

from .settings import Settings

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation that the config describes."""
    serve(grid, Settings.read(context.run_config))


def serve(grid: Grid, settings: Settings) -> list[float]:
    """The accuracy of the global network before the first round and after each."""
    model, random_state = settings.network(), random.getstate()
    sampling = {
        "fraction_train": settings.sampled / len(list(grid.get_node_ids())),
        "min_train_nodes": settings.sampled,
        "fraction_evaluate": 0.0,  # the server has the test images
    }
    if settings.method == "none":
        strategy: Strategy = FedAvg(**sampling)
    else:
        to = "clients" if settings.alone else "global"  # strangers do not resemble the server's network
        strategy = AlignedFedAvg(model, settings.method, to=to, outliers="leave out", **sampling)
    accuracies = []

    def judge(turn: int, arrays: ArrayRecord) -> MetricRecord:
        accuracies.append(settings.accuracy(arrays.to_torch_state_dict()))
        return MetricRecord({"accuracy": accuracies[-1]})

    random.seed(settings.seed)  # with which Flower samples clients
    strategy.start(
        grid,
        ArrayRecord(model.state_dict()),
        settings.rounds,
        train_config=ConfigRecord(asdict(settings)),
        evaluate_fn=judge,
    )
    random.setstate(random_state)
    return accuracies
