"""Pairs of networks of different depths, aligned in one call.

A batch may mix architectures. The aligner encodes networks of one architecture together, which is faster than one pair
after the other, and answers with one Alignment per pair, in order.

    python examples/differing_depths_batch.py
    python examples/differing_depths_batch.py --quick    # two pairs per depth, barely trained
"""

import argparse
import time

import torch
from rich.console import Console
from rich.table import Table

import align
from align.demo import digits, train
from align.plots import add_output, plot_line_panels
from align.zoo.architectures import mlp
from wsgraph import to_graph

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="few networks, barely trained")
add_output(parser, __file__)
args = parser.parse_args()
torch.set_num_threads(1)  # tiny matrices: more threads only wait for one another

DEPTHS = (2, 3, 4)
pairs, epochs = (2, 1) if args.quick else (8, 10)
data, test = digits()


def trained(depth, seed):
    torch.manual_seed(seed)
    return train(mlp((1, 8, 8), (32,) * (depth - 1)), data, seed, epochs)


left = [trained(depth, 2 * k) for depth in DEPTHS for k in range(pairs)]
right = [trained(depth, 2 * k + 1) for depth in DEPTHS for k in range(pairs)]
graphs_a, graphs_b = [to_graph(m) for m in left], [to_graph(m) for m in right]

aligner = align.DeepAlign()
aligner(graphs_a, graphs_b)  # the first call sets up what later ones reuse
start = time.perf_counter()
alignments = aligner(graphs_a, graphs_b)
together = time.perf_counter() - start
start = time.perf_counter()
alone = [aligner(a, b) for a, b in zip(graphs_a, graphs_b, strict=True)]
apart = time.perf_counter() - start
same = sum(x.permutation == y.permutation for x, y in zip(alignments, alone, strict=True))
print(f"{len(alignments)} pairs in one call: {together:.3f} s; one by one: {apart:.3f} s.")
print(f"Both ways give the same permutations for {same} of {len(alignments)} pairs.\n")

table = Table(title=f"Barrier between digits MLPs on unseen images, mean of {pairs} pairs")
for column in ("layers", "not aligned", "deep align"):
    table.add_column(column, justify="right")
panels = {}
for k, depth in enumerate(DEPTHS):
    chosen = slice(k * pairs, (k + 1) * pairs)
    moved = [found.apply(b) for found, b in zip(alignments[chosen], right[chosen], strict=True)]
    panels[f"{depth} layers"] = curves = {
        "not aligned": align.barrier(left[chosen], right[chosen], data=test),
        "deep align": align.barrier(left[chosen], moved, data=test),
    }
    table.add_row(str(depth), *(f"{float(curve):.3f}" for curve in curves.values()))
Console().print(table)
plot_line_panels(panels, args.output, "One call aligns pairs of every depth")
print(f"picture: {args.output}")
