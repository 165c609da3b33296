"""Train a learned aligner on zoos.

Each step takes one zoo and two batches of pairs: labelled ones, networks against permuted and augmented copies of
themselves, and unlabelled ones, different networks of the zoo. Everything drawn in a step depends on the seed and the
step's number alone, so that a resumed run, or one shared by several processes, draws the same.
"""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from wsgraph.augment import Compose, Mask, Noise, Scale

from .checkpoint import load_checkpoint, save_checkpoint
from .data.pairs import LabelledPairs, Pair, UnlabelledPairs, pair_loader
from .deep_align import DeepAlign
from .evaluation import validation_ratio
from .progress import progress
from .step import step_losses
from .zoo import Zoo

Report = Callable[[int, Mapping[str, float]], None]


@dataclass(frozen=True)
class TrainConfig:
    """How an aligner is trained.

    Args:
        steps: Optimiser steps.
        pairs: Labelled, and unlabelled, pairs per step, of all processes together.
        images: Samples of the task per step, shared by all pairs.
        lr: Peak learning rate; linear warm-up over the first tenth, then cosine to zero.
        weight_decay: AdamW's.
        clip: Largest norm of the gradient.
        ema: Decay of the average of the aligner's weights that is validated and kept; 0 for none.
        supervised: Weight of ℓ_supervised.
        lmc: Weight of ℓ_LMC.
        alignment: Weight of ℓ_alignment; on networks that fit signals of their own (INRs) it does harm and is left out.
        noise: Gaussian noise of the augmented copies, relative to each tensor's scale.
        mask: Share of their weights that is set to zero.
        scale: Their neurons are scaled by factors between 1 / scale and scale.
        temperature: Of the Sinkhorn projection.
        iterations: Of the Sinkhorn projection.
        hard: Take the step forward with hard permutations and backward through the soft ones.
        validate: Steps between two looks at the barrier of validation networks; 0 for never.
        patience: Looks without improvement before training stops; 0 to go on to the end.
        checkpoint: Steps between two checkpoints; 0 for none.
        seed: Of everything drawn.
    """

    steps: int = 500
    pairs: int = 8
    images: int = 256
    lr: float = 2e-3
    weight_decay: float = 5e-4
    clip: float = 1.0
    ema: float = 0.0
    supervised: float = 1.0
    lmc: float = 1.0
    alignment: float = 1.0
    noise: float = 0.02
    mask: float = 0.05
    scale: float = 1.1
    temperature: float = 1.0
    iterations: int = 20
    hard: bool = False
    validate: int = 0
    patience: int = 0
    checkpoint: int = 0
    seed: int = 0


@dataclass
class _Best:
    """The best aligner so far, by the barrier of validation networks."""

    value: float = math.inf
    step: int = 0
    stale: int = 0
    tensors: dict[str, Tensor] | None = None

    def look(self, value: float, step: int, tensors: Mapping[str, Tensor]) -> None:
        self.stale += 1
        if value < self.value:
            self.value, self.step, self.stale = value, step, 0
            self.tensors = {k: t.detach().cpu().clone() for k, t in tensors.items()}


def make_fabric(accelerator: str = "cpu", strategy: str = "auto", **options: Any) -> Fabric:
    """Devices, precision and processes, as Lightning Fabric takes them; under ``torchrun`` the processes are its own.

    A network may lack what some of the aligner's parameters are for, so ``ddp`` must expect parameters without
    gradients.
    """
    strategy = "ddp_find_unused_parameters_true" if strategy == "ddp" else strategy
    return Fabric(accelerator=accelerator, strategy=strategy, **options)


def train_aligner(
    aligner: DeepAlign,
    zoos: Sequence[Zoo],
    config: TrainConfig,
    folder: Path | str | None = None,
    resume: bool = False,
    report: Report | None = None,
    fabric: Fabric | None = None,
) -> DeepAlign:
    """Train in place and return the aligner in eval mode: the best of all validations, or else the last.

    Args:
        aligner: The aligner.
        zoos: What to learn from; steps take one of them at random.
        config: Sizes and rates.
        folder: Where checkpoints go; without one, none are written.
        resume: Go on from the folder's checkpoint, if there is one.
        report: Called after every step with the step's number and its losses, and after each validation.
        fabric: From :func:`make_fabric`; one process on the CPU by default.
    """
    fabric = fabric or make_fabric(devices=1)
    optimiser = torch.optim.AdamW(aligner.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    average = AveragedModel(aligner, multi_avg_fn=get_ema_multi_avg_fn(config.ema)) if config.ema else None
    best, start = _Best(), 0
    this_run = {"zoos": [repr(z) for z in zoos], "aligner": asdict(aligner.config), "training": asdict(config)}
    saved = load_checkpoint(folder) if folder is not None and resume else None
    if saved is not None:
        _require_same_run(saved["run"], this_run, folder)
        start = saved["step"]
        aligner.load_state_dict(saved["aligner"])
        optimiser.load_state_dict(saved["optimiser"])
        best = _Best(**saved["best"])
        if average is not None:
            average.load_state_dict(saved["average"])
    model, optimiser = fabric.setup(aligner, optimiser)
    model.mark_forward_method("stacked_scores")
    model.train()

    def save(step: int) -> None:
        if folder is None or not fabric.is_global_zero:
            return
        state = {"run": this_run, "step": step, "aligner": aligner.state_dict(), "best": vars(best)}
        state["optimiser"] = optimiser.optimizer.state_dict()
        if average is not None:
            state["average"] = average.state_dict()
        save_checkpoint(folder, state)

    with progress("training the aligner", config.steps) as bar, _stop_requests() as asked:
        bar(advance=start)
        for k, (plain, labelled) in enumerate(_batches(zoos, config, range(start, config.steps), fabric), start):
            if config.patience and best.stale >= config.patience:
                break
            if asked:
                save(k)
                raise KeyboardInterrupt(f"stopped at step {k}" + (f"; resume from {folder}" if folder else ""))
            parts = step_losses(model, plain, labelled, config, k)
            weights = _weights(config, plain[0].zoo)
            total = torch.stack([w * parts[name] for name, w in weights.items()]).sum()
            for group in optimiser.param_groups:
                group["lr"] = config.lr * _rate(k, config.steps)
            optimiser.zero_grad()
            fabric.backward(total)
            norm = fabric.clip_gradients(model, optimiser, max_norm=config.clip, error_if_nonfinite=False)
            _require_finite(float(total.detach()), norm, k, config, folder)
            optimiser.step()
            if average is not None:
                average.update_parameters(aligner)
            values = {name: float(cast(Tensor, fabric.all_reduce(v.detach()))) for name, v in parts.items()}
            bar(note=" ".join(f"{name} {v:.3f}" for name, v in values.items()))
            if config.validate and (k + 1) % config.validate == 0:
                judged = cast(DeepAlign, average.module) if average is not None else aligner
                values["barrier"] = validation_ratio(judged, zoos)
                best.look(values["barrier"], k + 1, judged.state_dict())
                model.train()
            if report is not None:
                report(k + 1, values)
            if config.checkpoint and ((k + 1) % config.checkpoint == 0 or k + 1 == config.steps):
                save(k + 1)
    if best.tensors is not None:
        aligner.load_state_dict(best.tensors)
    elif average is not None:
        aligner.load_state_dict(average.module.state_dict())
    return aligner.eval()


def _weights(config: TrainConfig, zoo: Zoo) -> dict[str, float]:
    """Weights of the losses that count for a zoo."""
    weights = {"supervised": config.supervised, "lmc": config.lmc, "alignment": config.alignment}
    return {k: w for k, w in weights.items() if w and not (k == "alignment" and zoo.task.own)}


def _rate(k: int, steps: int) -> float:
    warm = max(1, steps // 10)
    return (k + 1) / warm if k < warm else 0.5 * (1 + math.cos(math.pi * (k - warm) / max(1, steps - warm)))


def _batches(
    zoos: Sequence[Zoo], config: TrainConfig, steps: range, fabric: Fabric
) -> Iterator[tuple[list[Pair], list[Pair]]]:
    """Unlabelled and labelled pairs of each step, this process's share."""
    augment = Compose((Noise(config.noise), Mask(config.mask), Scale(1 / config.scale, config.scale)))
    count = config.steps * config.pairs
    plain = [UnlabelledPairs(z, count=count, seed=config.seed) for z in zoos]
    labelled = [LabelledPairs(z, augment=augment, count=count, seed=config.seed) for z in zoos]
    share = (config.pairs, steps, config.seed, fabric.global_rank, fabric.world_size)
    yield from zip(pair_loader(plain, *share), pair_loader(labelled, *share), strict=True)


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM instead of dying of them, so that the step at hand can be finished and saved."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked  # only the main thread may set handlers
        return
    before = {s: signal.signal(s, lambda number, _: asked.append(number)) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


def _require_same_run(saved: Mapping[str, Any], now: Mapping[str, Any], folder: Path | str | None) -> None:
    for part, settings in now.items():
        if saved[part] != settings:
            raise ValueError(
                f"the checkpoint in {folder} is of another run: its {part} is\n  {saved[part]}\nbut now\n  {settings}\n"
                "Choose another output folder, or start anew with resume=never."
            )


def _require_finite(total: float, norm: Tensor | None, k: int, config: TrainConfig, folder: Path | str | None) -> None:
    if math.isfinite(total) and (norm is None or math.isfinite(float(norm))):
        return
    saved = load_checkpoint(folder) if folder is not None else None
    kept = f"; the last good checkpoint, of step {saved['step']}, is in {folder}" if saved is not None else ""
    raise FloatingPointError(f"the loss is not finite at step {k}{kept}. Lower lr (now {config.lr}).")
