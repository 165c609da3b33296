"""Clients' networks are aligned before they are averaged, and odd replies spoil nothing."""

import logging
from collections.abc import Callable, Iterable, Sequence

import pytest
import torch
from torch import nn

from align.federated import Aligned, AlignedFedAvg
from align.federated.local import LocalGrid
from wsgraph import Permutation, to_graph
from wsgraph.randomness import seeded

from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict  # isort: skip
from flwr.serverapp.strategy import FedAdam, FedAvg, Strategy  # isort: skip

State = dict[str, torch.Tensor]
Client = Callable[[Message], Message | None]
NONE = ConfigRecord()
X = torch.randn(16, 4, generator=seeded(1), dtype=torch.float64)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).double()


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).double()


def reply(message: Message, state: State, **metrics: float) -> Message:
    metrics = {"num-examples": 1, **metrics}
    return Message(RecordDict({"arrays": ArrayRecord(state), "metrics": MetricRecord(metrics)}), reply_to=message)


def sends(state: State, **metrics: float) -> Client:
    return lambda message: reply(message, state, **metrics)


def shuffled(model: nn.Module, seed: int) -> State:
    return Permutation.random(to_graph(model).spec, seeded(seed)).apply(dict(model.state_dict()))


def federation(clients: Sequence[Client]) -> LocalGrid:
    def answer(messages: Sequence[Message]) -> Iterable[Message]:
        replies = (clients[message.metadata.dst_node_id - 1](message) for message in messages)
        return [found for found in replies if found is not None]

    return LocalGrid(len(clients), answer)


def one_round(strategy: Strategy, clients: Sequence[Client], start: State) -> State:
    """The global network after a round; the start, if nothing came of it."""
    result = strategy.start(federation(clients), ArrayRecord(start), num_rounds=1)
    return dict(result.arrays.to_torch_state_dict()) if result.arrays else start


def answers(model: nn.Module, state: State) -> torch.Tensor:
    with torch.no_grad():
        return torch.func.functional_call(model.eval(), state, (X,))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("weight_matching", {"to": "global"}),
        ("weight_matching", {"to": "clients"}),
        ("deep_align", {}),
        ("deep_align", {"to": "clients"}),
        ("weight_matching+sinkhorn", {"iterations": 2}),
    ],
)
def test_permuted_copies_average_to_the_original(method: str, options: dict[str, object]) -> None:
    model = mlp()
    clients = [sends(shuffled(model, seed)) for seed in range(4)]
    start, expected = dict(model.state_dict()), answers(model, dict(model.state_dict()))
    aligned = AlignedFedAvg(model, method, fraction_evaluate=0.0, **options)
    assert torch.allclose(answers(model, one_round(aligned, clients, start)), expected, atol=1e-12)
    plain = one_round(FedAvg(fraction_evaluate=0.0), clients, start)
    assert not torch.allclose(answers(model, plain), expected, atol=1e-2)


def test_odd_replies_are_left_out_by_name(caplog: pytest.LogCaptureFixture) -> None:
    model = mlp()
    good = dict(model.state_dict())

    def broken(message: Message) -> Message:
        odd = reply(message, good)
        odd.content.array_records["arrays"]["0.weight"].data = b"no array"
        return odd

    odd: dict[str, Client] = {
        "'0.bias' has numbers that are not finite": sends(good | {"0.bias": torch.full((8,), torch.nan).double()}),
        "'0.weight' has shape (8, 5), expected (8, 4)": sends(good | {"0.weight": torch.zeros(8, 5).double()}),
        "'0.bias' is of type torch.float32, expected torch.float64": sends(good | {"0.bias": good["0.bias"].float()}),
        "it has no '4.bias' (1 of 6 entries are missing)": sends({k: t for k, t in good.items() if k != "4.bias"}),
        "it has 'head.weight', which the model does not have": sends(good | {"head.weight": torch.zeros(2)}),
        "'0.weight' is no array of numbers": broken,
        "its metric 'num-examples', which it is weighted by, is nan": sends(good, **{"num-examples": torch.nan}),
        "its records are (('arrays', 'metrics'), (('loss', 0), ('num-examples', 0)))": sends(good, loss=1.0),
        "it has 0 ArrayRecords": lambda m: Message(RecordDict({"metrics": MetricRecord()}), reply_to=m),
        "its update is": sends({k: 1e6 * t for k, t in good.items()}),
        "did not reply in time": lambda message: None,
        "no disk": lambda message: Message(Error(0, "no disk"), reply_to=message),
    }
    clients = [*odd.values(), *(sends(shuffled(model, seed)) for seed in range(3))]
    with caplog.at_level(logging.INFO, "flwr"):
        found = one_round(AlignedFedAvg(model, fraction_evaluate=0.0, outliers="leave out"), clients, good)
    assert torch.allclose(answers(model, found), answers(model, good), atol=1e-12)
    for node, why in enumerate(odd, 1):
        said = [line for line in caplog.messages if f"node {node} " in line or f"node {node}:" in line]
        assert any(why in line for line in said), (why, caplog.messages)
    assert "Received 3 results and 1 failures" in caplog.text


def test_a_round_without_usable_replies_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    model = mlp()
    start = dict(model.state_dict())
    clients = [sends({k: t * torch.nan for k, t in start.items()})] * 2
    assert one_round(Aligned(FedAdam(fraction_evaluate=0.0), model), clients, start) is start
    assert "no usable reply in round 1; the global network stays" in caplog.text


def test_outliers_are_clipped_to_the_limit() -> None:
    model = mlp()
    start = dict(model.state_dict())

    def away(step: float) -> State:
        return start | {"4.bias": start["4.bias"] + torch.tensor([step, 0, 0])}

    clients = [sends(away(step)) for step in (1, 1, 1e9)]
    clipped = one_round(AlignedFedAvg(model, fraction_evaluate=0.0, outliers="clip", limit=4), clients, start)
    assert torch.allclose(clipped["4.bias"] - start["4.bias"], torch.tensor([2.0, 0, 0]).double())  # (1 + 1 + 4) / 3


def test_batchnorm_statistics_are_averaged_or_each_client_s_own() -> None:
    model = normed()
    start = dict(model.state_dict())
    seen: list[State] = []

    def client(seed: int) -> Client:
        state = shuffled(model, seed) | {"1.num_batches_tracked": torch.tensor(seed)}
        state["1.running_mean"] = state["1.running_mean"] + state["0.bias"]  # tells neurons apart, whatever their order

        def train(message: Message) -> Message:
            seen.append(dict(message.content.array_records["arrays"].to_torch_state_dict()))
            return reply(message, state)

        return train

    def rounds(batchnorm: str) -> State:
        seen.clear()
        strategy = AlignedFedAvg(model, fraction_evaluate=0.0, batchnorm=batchnorm)
        result = strategy.start(federation([client(2), client(5)]), ArrayRecord(start), num_rounds=2)
        return dict(result.arrays.to_torch_state_dict())

    averaged = rounds("average")
    assert torch.allclose(averaged["1.running_mean"], start["1.running_mean"] + start["0.bias"])
    assert averaged["1.num_batches_tracked"].dtype == torch.long
    assert int(averaged["1.num_batches_tracked"]) == 4  # 3.5, a whole number again

    local = rounds("local")
    assert torch.equal(local["1.running_mean"], start["1.running_mean"])
    assert sorted(int(state["1.num_batches_tracked"]) for state in seen) == [0, 0, 2, 5]
    for state in seen[2:]:
        assert torch.allclose(state["1.running_mean"], start["1.running_mean"] + start["0.bias"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "activation_matching"}, "a server has none"),
        ({"method": "sinkhorn", "data": X}, "a server has none"),
        ({"to": "first"}, "to='first' is not one of"),
        ({"limit": 0.5}, "expected at least 1"),
        ({"iterations": 3}, "'weight_matching' has no option 'iterations'"),
        ({"aligner": object()}, "does not use aligner="),
    ],
)
def test_what_cannot_work_is_refused_before_training(options: dict[str, object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        AlignedFedAvg(mlp(), **options)


def test_the_global_network_must_be_of_the_model() -> None:
    with pytest.raises(ValueError, match="round 1 is not one of the model that is aligned: it has no"):
        one_round(AlignedFedAvg(mlp()), [], dict(nn.Sequential(nn.Linear(4, 8).double()).state_dict()))
