"""Align and merge two digits networks that were trained from different seeds.

python examples/quickstart.py            # a minute
python examples/quickstart.py --quick    # seconds, barely trained
"""

import argparse
from pathlib import Path

import torch

import align
from align.demo import digits, network, train
from align.plots import plot_lines
from wsgraph import to_graph

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="train for one epoch only")
parser.add_argument("--output", type=Path, default=Path("outputs/quickstart.png"), help="where the picture goes")
args = parser.parse_args()
torch.set_num_threads(1)  # tiny matrices: more threads only wait for one another

held, (x, y) = digits()
a, b = (train(network(seed), held, seed, epochs=1 if args.quick else 20) for seed in (1, 2))

print(to_graph(a).spec)  # what may be permuted, and what is pinned
print()

curves = {"as they are": align.barrier(a, b, data=(x, y))}
alignment = align.match(a, b, "weight_matching")
print(alignment)
aligned = alignment.apply(b)  # the same function as b, its neurons in a's order
assert (aligned(x) - b(x)).abs().max() < 1e-3
curves["aligned"] = align.barrier(a, aligned, data=(x, y))

for name, curve in curves.items():
    print(f"{name:12} barrier {float(curve):.3f}, accuracy half way {float(curve.accuracy[12]):.1%}")
args.output.parent.mkdir(parents=True, exist_ok=True)
plot_lines(curves, args.output, "Two digits networks, before and after alignment")
print(f"picture: {args.output}")
