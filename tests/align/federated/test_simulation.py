"""A federation on a real local Ray: it ends, odd clients and all, and leaves no process."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from align.federated import AlignedFedAvg
from wsgraph import Permutation, to_graph
from wsgraph.randomness import seeded

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict  # isort: skip
from flwr.clientapp import ClientApp  # isort: skip
from flwr.serverapp import ServerApp  # isort: skip
from flwr.simulation import run_simulation  # isort: skip

CLIENTS = {"nan": "not finite", "dies": "no disk left", "other": "it has no", "huge": "more than 3 times the median"}
"""Odd clients, and what the log says of each."""


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_permuted_clients_among_odd_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import ray

    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))  # which Flower changes
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    start, spec, odd = dict(model.state_dict()), to_graph(model).spec, list(CLIENTS)
    client_app, server_app, found = ClientApp(), ServerApp(), []

    @client_app.train()
    def train(message: Message, context: Any) -> Message:
        number = context.node_config["partition-id"]
        kind = odd[number] if number < len(odd) else "good"
        (tmp_path / f"{kind} {context.node_id}").touch()
        state = Permutation.random(spec, seeded(number)).apply(start)
        if kind == "dies":
            raise OSError("no disk left")
        if kind == "other":
            state = dict(nn.Linear(4, 3).state_dict())
        factor = {"nan": float("nan"), "huge": 1e9}.get(kind, 1.0)
        content = {
            "arrays": ArrayRecord({name: factor * t for name, t in state.items()}),
            "metrics": MetricRecord({"num-examples": 10}),
        }
        return Message(RecordDict(content), reply_to=message)

    @server_app.main()
    def serve(grid: Any, _context: Any) -> None:
        everybody = {"min_train_nodes": len(odd) + 3, "min_available_nodes": len(odd) + 3}
        strategy = AlignedFedAvg(model, fraction_evaluate=0.0, outliers="leave out", **everybody)
        found.append(strategy.start(grid, ArrayRecord(start), num_rounds=1))

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 1}}
    with caplog.at_level(logging.INFO, "flwr"):
        run_simulation(server_app, client_app, len(odd) + 3, backend_config=resources)
    x = torch.randn(16, 4)
    with torch.no_grad():
        global_model = torch.func.functional_call(model, found[0].arrays.to_torch_state_dict(), (x,))
        assert torch.allclose(global_model, model(x), atol=1e-6)
    for kind, why in CLIENTS.items():
        (seen,) = tmp_path.glob(f"{kind} *")
        node = seen.name.split()[1]
        assert any(node in line and why in line for line in caplog.messages), (kind, caplog.messages)
    assert not ray.is_initialized(), "what was started here is ended here"
