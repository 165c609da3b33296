"""What a merged BatchNorm network needs: ResNet-20s on CIFAR-10, the midpoint with and without repair.

Two networks are trained from different seeds (kept in the cache folder, so a second run is quick), aligned by several
methods and averaged; the average is judged on the test set as it is, with BatchNorm statistics measured anew, and with
REPAIR.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wsgraph.files import load_tensors, save_tensors
from wsgraph.folder import cache_folder
from wsgraph.modules import tensors_of, with_tensors
from wsgraph.shell import shell

from ..data import load
from ..data.dataset import Split
from ..matching import match
from ..merging.merge import REPAIRS, merge
from ..methods.registry import takes
from ..progress import progress
from ..running.outputs import evaluate
from ..zoo.architectures import resnet20, seeded
from .sheet import Sheet

KIND = "align.benchmark.repair"
METHODS = ("identity", "weight_matching", "activation_matching")


def train(seed: int, epochs: int, width: float, data: Split, batch: int = 128, lr: float = 1e-2) -> nn.Module:
    """One network, trained with Adam and a one-cycle rate; random flips are the only augmentation."""
    path = cache_folder() / "benchmark" / f"resnet20-{width}-{epochs}-{seed}.safetensors"
    model = seeded(lambda: resnet20(width), seed)
    if path.is_file():
        return with_tensors(model, load_tensors(path, KIND)[0]).eval()
    x, y = data
    generator = torch.Generator().manual_seed(seed)
    steps = epochs * (len(x) // batch)
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, lr, total_steps=steps)
    model.train()
    with progress(f"ResNet-20, seed {seed}", steps) as step:
        for _ in range(epochs):
            order = torch.randperm(len(x), generator=generator)
            for index in order[: len(x) // batch * batch].split(batch):
                optimiser.zero_grad()
                loss = F.cross_entropy(model(_flipped(x[index], generator)), y[index])
                loss.backward()
                optimiser.step()
                schedule.step()
                step(note=f"loss {float(loss.detach()):.3f}")
    path.parent.mkdir(parents=True, exist_ok=True)
    save_tensors(tensors_of(model), path, {"kind": KIND})
    return model.eval()


def _flipped(x: Tensor, generator: torch.Generator) -> Tensor:
    flip = torch.rand(len(x), generator=generator) < 0.5
    return torch.where(flip[:, None, None, None], x.flip(-1), x)


def compare(epochs: int, width: float) -> None:
    """Print test loss and accuracy of both networks and of every average."""
    data = load("cifar10")
    a, b = (train(seed, epochs, width, data.train) for seed in (1, 2))
    inputs = data.train[0][:5_000]
    title = f"ResNet-20 (width {width}, {epochs} epochs), CIFAR-10: test loss and accuracy of the average"
    sheet = Sheet("repair", title, ("alignment", *REPAIRS))
    for name, model in (("network a", a), ("network b", b)):
        sheet.add(f"({name})", _judge(model, data.test), "", "")
    for method in METHODS:
        images = inputs if takes(method, "data") else None
        found = match(a, b, method, data=images, example_input=inputs[:2], seed=0)
        merged = [merge(a, b, alignment=found, repair=kind, data=inputs) for kind in REPAIRS]
        sheet.add(method, *(_judge(m, data.test) for m in merged))
    sheet.close()


def _judge(model: nn.Module, data: Split) -> str:
    loss, accuracy = evaluate(shell(model).eval(), [tensors_of(model)], F.cross_entropy, data)
    assert accuracy is not None
    return f"{float(loss):.3f}  {float(accuracy):.1%}"
