"""A client: it trains the network that it gets on images of its own."""

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn
from torch.nn import functional as F

from .settings import Settings

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """A reply with the trained network."""
    config = message.content.config_records["config"]
    settings, turn = Settings.read(config), int(config["server-round"])
    number, clients = int(context.node_config["partition-id"]), int(context.node_config["num-partitions"])
    own = settings.alone and turn == 1  # a stranger: what the server sends does not count yet
    model = settings.network(number if own else -1)
    if not own:
        model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    examples = fit(model, settings, settings.images(clients, number), turn * clients + number, bool(own))
    content = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": examples})}
    return Message(RecordDict(content), reply_to=message)


def fit(model: nn.Module, settings: Settings, images: tuple[torch.Tensor, torch.Tensor], seed: int, alone: bool) -> int:
    """Train for some steps; how many images there are."""
    torch.set_num_threads(1)  # there is a client on every core
    x, y = images
    generator = torch.Generator().manual_seed(settings.seed * 1_000_000 + seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.lr)
    for _ in range(settings.alone if alone else settings.steps):
        index = torch.randint(len(x), (settings.batch,), generator=generator)
        optimiser.zero_grad()
        F.cross_entropy(model(x[index]), y[index]).backward()
        optimiser.step()
    return len(x)
