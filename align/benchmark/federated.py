"""Federated learning: the accuracy of the global network by round, clients aligned before they are averaged or not.

Two settings. In the paper's, all clients start from one network. *Strangers* first train networks of their own, each
from its own seed, and send these in round 1; and once all of them are averaged at one shot.
"""

from __future__ import annotations

import logging
import random
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from ..deep_align import DeepAlign, DeepAlignConfig
from ..federated import Aligned
from ..federated.flower import ArrayRecord, FedAvg, Message, Strategy
from ..federated.local import LocalGrid
from ..federated.replies import tensors_in
from ..learning.settings import TrainConfig
from ..learning.trainer import train_aligner
from ..progress import progress
from ..zoo import Recipe, ZooConfig, build
from .clients import Clients, Protocol
from .contest import digest
from .rounds import Run, Runs

DATA = ("digits", "fashion_mnist")
ELSEWHERE = "mnist"
"""The data set of the aligner that is trained on another one, as in the paper."""
METHODS: dict[str, tuple[str, dict[str, Any]] | None] = {
    "FedAvg": None,
    "weight matching": ("weight_matching", {}),
    "deep align": ("deep_align", {}),
    "deep align, trained on MNIST": ("deep_align", {"aligner": ELSEWHERE}),
    "Sinkhorn-L2": ("sinkhorn", {"iterations": 10, "projections": 10}),
}
"""Label → method and options; nothing is aligned without. The slowest comes last."""
SETTINGS = {"one initialisation": False, "strangers": True}
ONE_SHOT, ALONE = "strangers, one shot", "a client alone"
STEPS, NETWORKS = 300, 48
"""Of the aligner that is trained on another data set."""


def federated(words: Sequence[str], output: Path, rounds: int, seeds: int, common: Protocol) -> None:
    """Run what is missing of a protocol; the folder ``output`` gets the table, its numbers and pictures."""
    chosen = [name for name in DATA if not words or any(word in name for word in words)]
    if not chosen:
        sys.exit(f"no data set contains {' or '.join(words)}; choose among {', '.join(DATA)}")
    logging.getLogger("flwr").setLevel(logging.ERROR)  # its lines of every round; those of odd clients, there are none
    aligners = {"bundled": DeepAlign(), ELSEWHERE: elsewhere(output / "aligner")}
    runs = Runs(output, (*METHODS, ALONE), seeds)
    settings = (*SETTINGS, ONE_SHOT)
    todo = [(x, y, seed, label) for label in METHODS for x in chosen for y in settings for seed in range(seeds)]
    todo += [(x, ONE_SHOT, seed, ALONE) for x in chosen for seed in range(seeds)]
    with progress("federations", len(todo)) as step, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Sinkhorn finds nothing better than its start is a result here
        for data, setting, seed, label in todo:
            protocol, turns = replace(common, data=data, strangers=SETTINGS.get(setting, True)), rounds
            if setting == ONE_SHOT:
                protocol, turns = replace(protocol, sampled=protocol.clients), 1
            used = aligners[ELSEWHERE if label.endswith("MNIST") else "bundled"] if "deep" in label else None
            method = repr(METHODS.get(label))
            of = {"protocol": repr(protocol), "rounds": turns, "method": method, "aligner": used and digest(used)}
            if not runs.has((data, setting, label, seed), of):
                runs.add((data, setting, label, seed), of, run(Clients(protocol, seed), label, turns, aligners))
            step(note=f"{data}, {setting}, {label}")
    runs.show()


def elsewhere(folder: Path) -> DeepAlign:
    """An aligner of networks of another data set, trained here unless it is there."""
    args = {"inputs": [1, 28, 28], "hidden": list(Protocol.hidden)}
    zoo = build(ZooConfig("federated", "mlp", args, data=ELSEWHERE, recipe=Recipe(epochs=2), together=16), NETWORKS)
    config = TrainConfig(steps=STEPS, checkpoint=50)
    torch.manual_seed(config.seed)
    return train_aligner(DeepAlign(DeepAlignConfig()), [zoo], config, folder, resume=True)


def run(clients: Clients, label: str, rounds: int, aligners: dict[str, DeepAlign]) -> Run:
    """One federation; or, to hold it against, the mean accuracy of clients that stay alone."""
    protocol, network = clients.protocol, clients.network()
    if label == ALONE:
        return Run([0.0, fmean(map(clients.accuracy, clients.own))], [0.0], [0.0])
    strategy = _strategy(clients, label, aligners)
    done = Run()
    answered = 0.0

    def answer(messages: Sequence[Message]) -> list[Message]:
        nonlocal answered
        replies = clients.answer(messages)
        answered = time.perf_counter()
        return replies

    def judge(turn: int, arrays: ArrayRecord) -> None:
        if turn:
            done.seconds.append(time.perf_counter() - answered)
            done.moved.append(_moved(strategy))
        done.accuracy.append(clients.accuracy(tensors_in(arrays)))

    random.seed(clients.seed)  # with which Flower samples clients
    grid, start = LocalGrid(protocol.clients, answer), ArrayRecord(dict(network.state_dict()))
    strategy.start(grid, start, rounds, evaluate_fn=judge)
    return done


def _strategy(clients: Clients, label: str, aligners: dict[str, DeepAlign]) -> Strategy:
    protocol, found = clients.protocol, METHODS[label]
    inner = FedAvg(fraction_train=protocol.sampled / protocol.clients, fraction_evaluate=0.0)
    if found is None:
        return inner
    method, options = found
    if "aligner" in options:
        options = {**options, "aligner": aligners[options["aligner"]]}
    # Strangers do not resemble the network that the server starts from, but one another.
    return Aligned(inner, clients.network(), method, to="clients" if protocol.strangers else "global", **options)


def _moved(strategy: Strategy) -> float:
    """The share of neurons that the last alignment moved."""
    if not isinstance(strategy, Aligned):
        return 0.0
    maps = [idx for found in strategy.permutations.values() for idx in found.maps.values()]
    return float(torch.cat([idx != torch.arange(len(idx)) for idx in maps]).double().mean())
