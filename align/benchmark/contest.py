"""The learned aligner against the classic methods, between the networks of one zoo."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ..deep_align import DeepAlign
from ..judging.barrier import Barrier
from ..judging.compare import mean_with_error
from ..judging.evaluation import line_barrier
from ..matching import match
from ..methods.auto import ITERATIONS
from ..methods.registry import takes
from ..progress import progress
from ..running.pictures import PICTURES, is_image
from ..zoo import Zoo

UNREFINED = "deep align, not refined"
PICTURED = "activation matching, pictures"
METHODS: dict[str, tuple[str, str | None]] = {
    "not aligned": ("identity", None),
    "weight matching": ("weight_matching", None),
    "covariance matching": ("covariance_matching", None),
    "activation matching, 2,000 images": ("activation_matching", "inputs"),
    "activation matching, noise": ("activation_matching", "noise"),
    PICTURED: ("activation_matching", PICTURES),
    UNREFINED: ("deep_align", None),
    "deep align": ("deep_align", None),
    "deep align + weight matching": ("deep_align+weight_matching", None),
    "deep align + Sinkhorn, noise": ("deep_align+sinkhorn", "noise"),
    "deep align + Sinkhorn, dreams": ("deep_align+sinkhorn", "dreams"),
    "auto": ("auto", None),
    "auto, 2,000 labelled images": ("auto", "labelled"),
}
"""Label → name of the method and what it sees."""
FREE = ("weight matching", "activation matching, noise", PICTURED)
CLASSIC = (*FREE, "activation matching, 2,000 images")
"""Methods to be measured against: without data, and all. Of networks that read no images, one is missing."""
COLUMNS = ("networks", "pairs", *METHODS, "deep align / best classic without data", "deep align / best classic")
SEEN, JUDGED, POINTS = 2_000, 2_000, 11
"""Samples that methods see, samples that barriers are measured on, points on the line."""
Row = Mapping[str, Barrier]
"""Barriers by the method's label."""


def labels_for(zoo: Zoo) -> list[str]:
    """The methods that have something to say of a zoo's networks: pictures are for those that read images."""
    return [label for label in METHODS if label != PICTURED or is_image(zoo.config.example_input().shape[1:])]


def judge(zoo: Zoo, name: str, aligner: DeepAlign, labels: Sequence[str]) -> dict[str, Barrier]:
    """Barriers of some of :data:`METHODS` between the networks of a zoo, in disjoint pairs: of views, if it has any."""
    numbers = list(zoo.records)
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    out = {}
    with progress(name, len(labels) * len(pairs)) as step:
        for label in labels:
            method, data = METHODS[label]
            moved = []
            for pair in pairs:
                moved.append(_moved(zoo, pair, method, data, aligner.unrefined() if label == UNREFINED else aligner))
                step(note=label)
            out[label] = line_barrier(zoo, pairs, moved, samples=JUDGED, points=POINTS)
    return out


def _moved(zoo: Zoo, pair: tuple[int, int], method: str, data: str | None, aligner: DeepAlign) -> nn.Module:
    """The second network of a pair, aligned to the first."""
    a, b = (zoo.module(n) for n in pair)
    x, y = (t[:SEEN] for t in zoo.task.samples("train", zoo.config.item_of(pair[0])))
    given: dict[str | None, Any] = {"inputs": x, "labelled": (x, y)}
    options: dict[str, Any] = {"aligner": aligner} if takes(method, "aligner") else {}
    if method == "auto" or method.endswith("sinkhorn"):
        options["loss"] = zoo.task.loss
    if method.endswith("sinkhorn"):
        options["iterations"] = ITERATIONS
    return match(a, b, method, example_input=x[:2], data=given.get(data, data), **options).apply(b)


def ratio(row: Row, label: str, others: Sequence[str]) -> float:
    """Mean barrier of a method relative to the best of ``others``; where that has none, 1 or infinite."""
    own, best = float(row[label]), min(float(row[other]) for other in others if other in row)
    return own / best if best else torch.inf if own else 1.0


def cells(row: Row) -> list[str]:
    """The numbers of a row: pairs, every method's barrier, and two ratios of the forward pass."""
    found = [str(len(row["deep align"].loss))]
    for label in METHODS:
        if label not in row:  # not judged yet, or not for these networks
            found.append("–")
            continue
        found.append(mean_with_error(row[label].barrier))
    return [*found, *(f"{ratio(row, 'deep align', others):.2f}" for others in (FREE, CLASSIC))]


def digest(aligner: DeepAlign) -> str:
    """Tells aligners apart: a hash of settings and parameters."""
    sha = hashlib.sha256(repr(aligner.config).encode())
    for name, tensor in sorted(aligner.state_dict().items()):
        sha.update(name.encode())
        sha.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()[:16]
