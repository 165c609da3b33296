"""One aligner for MLPs of 3, 4 and 5 layers.

The paper's encoder is tied to one depth; this one is not. Families of digits MLPs of three depths are trained, one
aligner learns from all of them, and every method is judged on networks it never saw, pair by pair within each depth.

    python examples/diverse_depth_mlps.py            # a few minutes
    python examples/diverse_depth_mlps.py --quick    # seconds: shows the way, not the numbers
"""

import argparse
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import align
from align.demo import digits
from align.plots import plot_lines
from align.trainer import TrainConfig, train_aligner
from align.zoo.architectures import mlp
from align.zoo.family import build_family
from align.zoo.together import Recipe

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="few networks, few steps")
parser.add_argument(
    "--output", type=Path, default=Path("outputs/diverse_depth_mlps.png"), help="where the picture goes"
)
args = parser.parse_args()
torch.set_num_threads(1)  # tiny matrices: more threads only wait for one another

DEPTHS = (3, 4, 5)
networks, pairs, steps, iterations = (4, 1, 2, 2) if args.quick else (32, 2, 240, 60)
start = time.perf_counter()
data, held = digits()

families = [
    build_family(
        f"{depth} layers", lambda depth=depth: mlp((1, 8, 8), (32,) * (depth - 1)), data, held, train=networks, test=4,
        recipe=Recipe(epochs=1 if args.quick else 12, batch=64, lr=3e-3),
    )
    for depth in DEPTHS
]  # fmt: skip

torch.manual_seed(0)
aligner = train_aligner(align.DeepAlign(align.DeepAlignConfig()), families, TrainConfig(steps=steps))

methods = {
    "not aligned": ("identity", {}),
    "weight matching": ("weight_matching", {}),
    "sinkhorn": ("sinkhorn", {"iterations": 3 * iterations}),
    "weight matching + sinkhorn": ("weight_matching+sinkhorn", {"iterations": iterations}),
    "deep align": ("deep_align", {}),
    "deep align + sinkhorn": ("deep_align+sinkhorn", {"iterations": iterations}),
}

table = Table(title=f"Barrier between held-out digits MLPs, {pairs} pairs per depth")
for column in ("method", *(family.name for family in families)):
    table.add_column(column)
curves = {}
for name, (method, options) in methods.items():
    row = []
    for family in families:
        left, right = family.test_pairs(pairs)
        moved = [
            align.match(a, b, method, data=data, aligner=aligner, seed=0, **options).apply(b)
            for a, b in zip(left, right, strict=True)
        ]
        curve = align.barrier(left, moved, data=held)
        row.append(f"{float(curve):.3f}")
    curves[name] = curve
    table.add_row(name, *row)
Console().print(table)
args.output.parent.mkdir(parents=True, exist_ok=True)
plot_lines(curves, args.output, f"Loss between held-out MLPs of {DEPTHS[-1]} layers")
print(f"picture: {args.output}   ({time.perf_counter() - start:.0f} s)")
