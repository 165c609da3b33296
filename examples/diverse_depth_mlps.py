"""One aligner for MLPs of 3, 4 and 5 layers.

The paper's encoder is tied to one depth; this one is not. Zoos of digits MLPs of three depths are trained (and kept in
the cache folder), one aligner learns from all of them, and every method is judged on networks it never saw, pair by
pair within each depth. The pretrained aligner, which saw digits MLPs of other widths, stands beside it.

    python examples/diverse_depth_mlps.py            # about two minutes the first time
    python examples/diverse_depth_mlps.py --quick    # seconds: shows the way, not the numbers
"""

import argparse
import time

import torch
from rich.console import Console
from rich.table import Table

import align
from align.judging.evaluation import line_barrier, pairs_of
from align.learning.settings import TrainConfig
from align.learning.trainer import train_aligner
from align.plots import add_output, plot_line_panels
from align.zoo import Recipe, ZooConfig, build

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="few networks, few steps")
add_output(parser, __file__)
args = parser.parse_args()
torch.set_num_threads(1)  # tiny matrices: more threads only wait for one another

DEPTHS = (3, 4, 5)
count, epochs, steps, pairs, iterations = (12, 1, 2, 1, 2) if args.quick else (36, 12, 250, 3, 40)
start = time.perf_counter()

zoos = []
for depth in DEPTHS:
    shape = {"inputs": [1, 8, 8], "hidden": [32] * (depth - 1)}
    config = ZooConfig(f"digits-{depth}", "mlp", shape, recipe=Recipe(epochs, 64, 3e-3), together=12)
    zoos.append(build(config, count))

torch.manual_seed(0)
aligner = train_aligner(align.DeepAlign(align.DeepAlignConfig()), zoos, TrainConfig(steps=steps))

methods = {
    "not aligned": ("identity", {}),
    "weight matching": ("weight_matching", {}),
    "sinkhorn": ("sinkhorn", {"iterations": 3 * iterations}),
    "weight matching + sinkhorn": ("weight_matching+sinkhorn", {"iterations": iterations}),
    "deep align (pretrained)": ("deep_align", {}),
    "deep align (trained here)": ("deep_align", {"aligner": aligner}),
    "deep align (trained here) + sinkhorn": ("deep_align+sinkhorn", {"aligner": aligner, "iterations": iterations}),
}

some = "1 pair" if pairs == 1 else f"{pairs} pairs"
table = Table(title=f"Barrier between held-out digits MLPs, {some} per depth")
for column in ("method", *(f"{depth} layers" for depth in DEPTHS)):
    table.add_column(column)
panels = {f"{depth} layers": {} for depth in DEPTHS}
for name, (method, options) in methods.items():
    row = []
    for zoo, curves in zip(zoos, panels.values(), strict=True):
        chosen = pairs_of(zoo, "test", pairs)
        moved = []
        for i, j in chosen:
            a, b = zoo.module(i), zoo.module(j)
            images = zoo.task.samples("train") if method.endswith("sinkhorn") else None
            moved.append(align.match(a, b, method, data=images, seed=0, **options).apply(b))
        curves[name] = line_barrier(zoo, chosen, moved)
        row.append(f"{float(curves[name]):.3f}")
    table.add_row(name, *row)
Console().print(table)
plot_line_panels(panels, args.output, f"Loss between held-out digits MLPs, {some} per depth")
print(f"picture: {args.output}   ({time.perf_counter() - start:.0f} s)")
