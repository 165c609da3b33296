"""Families of networks without end: the k-th is drawn by its number alone, small enough to be trained by the dozen.

An aligner learns what is common to many recipes from many cheap families, not from few large ones. So everything that
users' networks differ in is drawn: architecture, depth, width, activation, norm, data, optimiser, initialisation.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from .config import ZooConfig
from .tables import BUNDLED, TEACHER, table_shape
from .together import Recipe

CYCLE = (
    "dense", "convolutional", "dense", "recurrent", "dense_residual", "dense", "residual", "table",
    "dense", "transformer", "convolutional", "dense", "inr", "residual", "dense_residual", "table",
)  # fmt: skip
"""Kinds of networks, in turn: any few families in a row have most of them."""
FLAT = (("digits", (1, 8, 8)), ("fashion_mnist", (1, 14, 14)), ("digits", (1, 8, 8)), ("mnist", (1, 14, 14)),
        ("cifar10", (3, 8, 8)))  # fmt: skip
IMAGES = (("digits", (1, 8, 8)), ("digits", (1, 8, 8)), ("fashion_mnist", (1, 10, 10)), ("cifar10", (3, 10, 10)))
ACTIVATIONS = ("relu", "gelu", "tanh", "relu", "silu", "relu", "elu", "gelu", "leaky_relu")
NORMS = ("none", "batch", "none", "layer")
INITIALISATIONS = ("default", "default", "he", "xavier", "orthogonal")
EMBEDDED_EPOCHS = (8, 12, 16, 24)
"""Of the 1,400 digits; larger data sets are passed once or twice."""
WIDTHS, WIDE = (24, 32, 40, 48, 64, 80, 96), (128, 160, 192, 256)
WIDE_ROUND = 4
"""Dense networks are wide in every fourth round of the cycle, and deep as well in the one after it."""


def family(number: int, seed: int = 0) -> ZooConfig:
    """The ``number``-th family of networks.

    Args:
        number: Any; close numbers are families of different kinds.
        seed: Another seed is another endless list.
    """
    draw = random.Random(f"family {seed} {number}")
    kind = CYCLE[number % len(CYCLE)]
    args, task, data, shape = _NETWORKS[kind](draw, number)
    make = {"table": "dense"}.get(kind, kind)
    alone = args.get("norm") == "batch" or make in ("convolutional", "residual", "transformer", "recurrent")
    return ZooConfig(
        name=f"family{number}-{kind}",
        make=make,
        args=args,
        task=task,
        data=data,
        shape=shape,
        recipe=_recipe(draw, make, args, data, task),
        together=1 if alone else 12,
        views=2 if task == "images" else 1,
        seed=number + 1,
    )


def families(count: int, more: Sequence[int] = (), seed: int = 0) -> list[ZooConfig]:
    """The first ``count`` families, and those of some other numbers."""
    return [family(number, seed) for number in (*range(count), *more)]


Drawn = tuple[dict[str, Any], str, str | None, tuple[int, int, int] | None]
"""Arguments of the builder, task, data set, shape of its images."""


def _dense(draw: random.Random, number: int) -> Drawn:
    data, shape = draw.choice(FLAT)
    return {"inputs": list(shape), **_layers(draw, number)}, "classify", data, shape


def _layers(draw: random.Random, number: int) -> dict[str, Any]:
    turn = number // len(CYCLE)
    deep = turn > 0 and turn % WIDE_ROUND == 0
    wide = deep or turn % WIDE_ROUND == WIDE_ROUND - 1
    width = draw.choice(WIDE if wide else WIDTHS)
    taper = draw.choice((1.0, 1.0, 0.75, 1.25))
    depth = draw.choice((4, 5, 5, 6) if deep else (1, 2, 2, 3, 3, 4, 5))
    hidden = [max(16, min(256 if wide else 112, round(width * taper**k))) for k in range(depth)]
    return {"hidden": hidden, "activation": draw.choice(ACTIVATIONS), "norm": draw.choice(NORMS)}


def _table(draw: random.Random, number: int) -> Drawn:
    data = draw.choice((*BUNDLED, *[f"{TEACHER}{number}"] * 5))
    inputs, outputs = table_shape(data)
    return {"inputs": inputs, "outputs": outputs, **_layers(draw, number)}, "table", data, None


def _dense_residual(draw: random.Random, number: int) -> Drawn:
    data, shape = draw.choice(FLAT)
    width = draw.choice((32, 48, 64))
    inner = draw.choice((width, width // 2 * 3, 2 * width))
    args = {"inputs": list(shape), "width": width, "depth": draw.choice((1, 2, 3)), "inner": inner}
    norm = draw.choice(("layer", "layer", "none", "batch"))
    return {**args, "activation": draw.choice(ACTIVATIONS), "norm": norm}, "classify", data, shape


def _convolutional(draw: random.Random, number: int) -> Drawn:
    data, shape = draw.choice(IMAGES)
    width = draw.choice((8, 12, 16))
    channels = [round(width * (1 + 0.5 * (k // 2))) for k in range(draw.choice((2, 3, 3, 4)))]
    args: dict[str, Any] = {"inputs": list(shape), "channels": channels, "kernel": draw.choice((3, 3, 5))}
    args |= {"activation": draw.choice(ACTIVATIONS), "norm": draw.choice(("batch", "none", "batch", "layer"))}
    args |= {"pool": draw.choice(("max", "mean", "stride")), "average": draw.random() < 0.5}
    return {**args, "head": draw.choice((0, 0, 32))}, "classify", data, shape


def _residual(draw: random.Random, number: int) -> Drawn:
    data, shape = draw.choice(IMAGES)
    width = draw.choice((8, 12, 16))
    channels = [width * 2**k for k in range(draw.choice((1, 2, 2)))]
    args: dict[str, Any] = {"inputs": list(shape), "channels": channels, "blocks": draw.choice((1, 2))}
    args |= {"activation": draw.choice(("relu", "relu", "gelu", "silu")), "pre": draw.random() < 0.3}
    return {**args, "norm": draw.choice(("batch", "batch", "layer", "none"))}, "classify", data, shape


def _transformer(draw: random.Random, number: int) -> Drawn:
    heads = draw.choice((2, 3, 4))
    width = heads * draw.choice((8, 12))
    args = {"inputs": [1, 8, 8], "patch": 2, "width": width, "depth": draw.choice((1, 2)), "heads": heads}
    args |= {"inner": draw.choice((1, 2)) * width, "fused": draw.random() < 0.5}
    return {**args, "activation": draw.choice(("gelu", "relu", "silu"))}, "classify", "digits", (1, 8, 8)


def _recurrent(draw: random.Random, number: int) -> Drawn:
    args = {"inputs": [1, 8, 8], "width": draw.choice((24, 32, 40, 48)), "layers": draw.choice((1, 1, 2))}
    return {**args, "kind": draw.choice(("lstm", "gru"))}, "classify", "digits", (1, 8, 8)


def _inr(draw: random.Random, number: int) -> Drawn:
    args = {"inputs": 2, "outputs": 1, "hidden": draw.choice((24, 32)), "layers": draw.choice((3, 4))}
    return {**args, "frequency": draw.choice((5.0, 10.0))}, "images", "digits", (1, 8, 8)


_NETWORKS = {
    "dense": _dense,
    "table": _table,
    "dense_residual": _dense_residual,
    "convolutional": _convolutional,
    "residual": _residual,
    "transformer": _transformer,
    "recurrent": _recurrent,
    "inr": _inr,
}


def _recipe(draw: random.Random, make: str, args: dict[str, Any], data: str | None, task: str) -> Recipe:
    if task == "images":
        return Recipe(epochs=600, batch=4096, lr=1e-3)
    small = data == "digits" or task == "table"
    epochs = draw.choice(EMBEDDED_EPOCHS) if small else 1
    alone = "channels" in args or args.get("norm") == "batch"  # and so slow
    batch = draw.choice((32, 64, 128)) if small else 128 if alone else draw.choice((64, 128))
    if make in ("transformer", "recurrent"):
        return Recipe(max(epochs, 16), batch=64, lr=draw.choice((2e-3, 4e-3)))
    plain = args.get("norm") == "none"
    if draw.random() < 0.25 and args["activation"] != "sigmoid":
        lr = draw.choice((0.02, 0.05)) if plain else draw.choice((0.05, 0.1))
        return Recipe(epochs, batch, lr, "sgd", draw.choice((0.0, 5e-4)), draw.choice(INITIALISATIONS))
    lr, decay = draw.choice((1e-3, 2e-3, 4e-3)), draw.choice((0.0, 0.0, 1e-2, 0.1))
    return Recipe(epochs, batch, lr, "adam", decay, draw.choice(INITIALISATIONS))
