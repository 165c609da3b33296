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
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from wsgraph.augment import Compose, Mask, Noise, Scale

from ..deep_align import DeepAlign, DeepAlignConfig
from ..judging.evaluation import Look, Validation
from ..progress import progress
from ..zoo import Zoo
from .checkpoint import load_checkpoint, save_checkpoint
from .pairs import LabelledPairs, Pair, UnlabelledPairs, pair_loader
from .settings import STAGES, TrainConfig
from .step import step_losses

Report = Callable[[int, Mapping[str, float]], None]
LEAST, MOST = 0.5, 3.0
"""Bounds of how often a zoo is drawn, relative to one where the aligner is as good as the classic methods."""


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
        resume: Go on from the folder's checkpoint, if there is one. With more steps than before a training is extended,
            finished or not, and the learning rate is that of the longer one.
        report: Called after every step with the step's number, its losses and, if it was validated, its barrier.
        fabric: From :func:`make_fabric`; one process on the CPU by default.
    """
    run = _Run(aligner, zoos, config, folder, fabric or make_fabric(devices=1))
    start = run.restore() if resume else 0
    if start == 0 and config.steps and config.validate:
        run.look(0)  # what training starts from may be the pretrained aligner, and better than all that follows
    with progress("training the aligner", config.steps) as bar, _stop_requests() as asked:
        bar(advance=start)
        for k, (plain, labelled) in enumerate(run.batches(start), start):
            if config.patience and run.best.stale >= config.patience:
                break
            if asked:
                run.save(k)
                raise KeyboardInterrupt(f"stopped at step {k}" + (f"; resume from {folder}" if folder else ""))
            values = run.step(k, plain, labelled)
            bar(note=" ".join(f"{name} {v:.3f}" for name, v in values.items()))
            if config.validate and (k + 1) % config.validate == 0:
                values["barrier"] = run.validate(k + 1)
            if report is not None:
                report(k + 1, values)
            if config.checkpoint and ((k + 1) % config.checkpoint == 0 or k + 1 == config.steps):
                run.save(k + 1)
    return run.result()


class _Run:
    """What changes while an aligner is trained: its parameters, their average, the optimiser, the best aligner."""

    def __init__(
        self, aligner: DeepAlign, zoos: Sequence[Zoo], config: TrainConfig, folder: Path | str | None, fabric: Fabric
    ) -> None:
        self.aligner, self.zoos, self.config, self.folder, self.fabric = aligner, zoos, config, folder, fabric
        self.best = _Best()
        self.needs = [1.0] * len(zoos)
        self.judge = Validation(zoos) if config.validate else None
        self.average = AveragedModel(aligner, multi_avg_fn=get_ema_multi_avg_fn(config.ema)) if config.ema else None
        optimiser = torch.optim.AdamW(aligner.parameters(), lr=config.lr, weight_decay=config.weight_decay)
        self.model, self.optimiser = fabric.setup(aligner, optimiser)
        self.model.mark_forward_method("stacked_scores")
        self.model.train()

    @property
    def judged(self) -> DeepAlign:
        """The aligner that counts: the average, if there is one."""
        return self.aligner if self.average is None else cast(DeepAlign, self.average.module)

    def step(self, k: int, plain: Sequence[Pair], labelled: Sequence[Pair]) -> dict[str, float]:
        """One step of the optimiser; returns the losses, mean over all processes."""
        # Fabric's own autocast reaches a marked method under ddp only.
        parts = step_losses(self.model, plain, labelled, self.config, k, self.fabric.autocast)
        weights = self.config.weights(plain[0].zoo, k)
        total = torch.stack([w * parts[name] for name, w in weights.items()]).sum()
        for group in self.optimiser.param_groups:
            group["lr"] = self.config.lr * _rate(k, self.config.steps)
        self.optimiser.zero_grad()
        self.fabric.backward(total)
        norm = self.fabric.clip_gradients(
            self.model, self.optimiser, max_norm=self.config.clip, error_if_nonfinite=False
        )
        self._require_finite(float(total.detach()), norm, k)
        self.optimiser.step()
        if self.average is not None:
            self.average.update_parameters(self.aligner)
        return {name: float(cast(Tensor, self.fabric.all_reduce(v.detach()))) for name, v in parts.items()}

    def batches(self, start: int) -> Iterator[tuple[list[Pair], list[Pair]]]:
        """Unlabelled and labelled pairs of each step, this process's share.

        Zoos are drawn by need: after every validation, those where the aligner does worst come more often.
        """
        config, stops = self.config, [*range(0, self.config.steps, self.config.validate or self.config.steps)]
        sizes, (seed, stages) = (config.pairs, config.labelled), (config.seed, _augmentations(config))
        count = config.steps * sizes[0]
        plain = [UnlabelledPairs(z, count=count, seed=seed, mirrored=config.mirror) for z in self.zoos]
        labelled = [LabelledPairs(z, augment=stages, count=config.steps * sizes[1], seed=seed) for z in self.zoos]
        for first, last in pairwise([start, *(s for s in stops if s > start), config.steps]):
            share = (range(first, last), seed, self.fabric.global_rank, self.fabric.world_size)
            streams = zip((plain, labelled), sizes, strict=True)
            yield from zip(*(pair_loader(s, size, *share, needs=self.needs) for s, size in streams), strict=True)

    def validate(self, step: int) -> float:
        """Judge the aligner on validation networks; the best one is kept, and the zoos' needs follow."""
        look = self.look(step)
        self.needs = [min(max(ratio, LEAST), MOST) for ratio in look.ratios]
        return look.value

    def look(self, step: int) -> Look:
        """Judge the aligner on validation networks; the best one is kept."""
        assert self.judge is not None
        look = self.judge(self.judged)
        self.best.look(look.value, step, self.judged.state_dict())
        self.model.train()
        return look

    def result(self) -> DeepAlign:
        """The aligner with the parameters that did best."""
        self.aligner.load_state_dict(self.best.tensors or self.judged.state_dict())
        return self.aligner.eval()

    @property
    def settings(self) -> dict[str, Any]:
        """What a checkpoint must agree with to be continued."""
        zoos = [repr(zoo) for zoo in self.zoos]
        return {"zoos": zoos, "aligner": asdict(self.aligner.config), "training": asdict(self.config)}

    def save(self, step: int) -> None:
        """Write a checkpoint after ``step`` steps. Nothing random is in it: draws depend on the step's number alone."""
        if self.folder is None or not self.fabric.is_global_zero:
            return
        state = {"run": self.settings, "step": step, "best": vars(self.best), "aligner": self.aligner.state_dict()}
        state["needs"] = self.needs
        state["optimiser"] = self.optimiser.optimizer.state_dict()
        state["average"] = None if self.average is None else self.average.state_dict()
        save_checkpoint(self.folder, state)

    def restore(self) -> int:
        """Go back to the folder's checkpoint, if there is one; returns the number of steps done."""
        saved = load_checkpoint(self.folder) if self.folder is not None else None
        if saved is None:
            return 0
        if "needs" not in saved:
            raise ValueError(
                f"the checkpoint in {self.folder} was written by a version before zoos were drawn by need (it has no "
                "'needs'); finish that run with the version that began it, or start anew with resume=never."
            )
        try:
            return self._take(saved)
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise ValueError(
                f"the checkpoint in {self.folder} is not what a training writes ({error!r}); start anew with "
                "resume=never."
            ) from error

    def _take(self, saved: Mapping[str, Any]) -> int:
        """Go on from what a checkpoint holds."""
        # What a version before did not know of, it did as the default does.
        defaults = {"aligner": asdict(DeepAlignConfig()), "training": asdict(TrainConfig())}
        run = saved["run"] | {part: {**known, **saved["run"][part]} for part, known in defaults.items()}
        more = self.config.steps > run["training"]["steps"]
        for part, now in self.settings.items():
            agreed = {**now, "steps": run[part]["steps"]} if part == "training" and more else now
            if run[part] != agreed:
                raise ValueError(
                    f"the checkpoint in {self.folder} is of another run: its {part} is\n  {run[part]}\n"
                    f"but now\n  {now}\nChoose another output folder, delete this one, or start anew with resume=never "
                    "of align.train."
                )
        self.aligner.load_state_dict(saved["aligner"])
        self.optimiser.optimizer.load_state_dict(saved["optimiser"])
        self.best, self.needs = _Best(**saved["best"]), saved["needs"]
        self.best.stale = 0 if more else self.best.stale  # whoever asks for more steps wants them taken
        if self.average is not None:
            self.average.load_state_dict(saved["average"])
        return int(saved["step"])

    def _require_finite(self, total: float, norm: Tensor | None, k: int) -> None:
        # A gradient scaler (16-mixed) finds its scale by overflowing now and then, and leaves such steps out itself.
        scaled = getattr(self.fabric.strategy.precision, "scaler", None) is not None
        if math.isfinite(total) and (norm is None or scaled or math.isfinite(float(norm))):
            return
        saved = load_checkpoint(self.folder) if self.folder is not None else None
        kept = f"; the last good checkpoint, of step {saved['step']}, is in {self.folder}" if saved is not None else ""
        raise FloatingPointError(f"the loss is not finite at step {k}{kept}. Lower lr (now {self.config.lr}).")


def _rate(k: int, steps: int) -> float:
    warm = max(1, steps // 10)
    return (k + 1) / warm if k < warm else 0.5 * (1 + math.cos(math.pi * (k - warm) / max(1, steps - warm)))


def _augmentations(config: TrainConfig) -> list[Compose]:
    """f_aug of the labelled copies, by stages of the training."""
    grown = 0.0 if config.noise_end is None else config.noise_end - config.noise
    levels = [config.noise + grown * k / (STAGES - 1) for k in range(STAGES)]
    return [Compose((Noise(x), Mask(config.mask), Scale(1 / config.scale, config.scale))) for x in levels]


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
