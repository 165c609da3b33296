"""Align and merge two digits networks that were trained from different seeds.

Both solve the task, but their neurons are in different orders, so the plain average of their weights does not. Neither
weight matching nor the learned aligner looks at data.

    python examples/quickstart.py
    python examples/quickstart.py --quick    # barely trained
"""

import argparse

import torch
from torch.testing import assert_close

import align
from align.demo import digits, network, train
from align.plots import add_output, plot_lines
from wsgraph import to_graph

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="train for one epoch only")
add_output(parser, __file__)
args = parser.parse_args()
torch.set_num_threads(1)  # tiny matrices: more threads only wait for one another


def accuracy(model):
    return float((model(x).argmax(1) == y).float().mean())


data, (x, y) = digits()
a, b = (train(network(seed), data, seed, epochs=1 if args.quick else 20) for seed in (1, 2))
print("What may be permuted, and what is pinned:")
print(to_graph(a).spec)
print(f"\nAccuracy on unseen images: a {accuracy(a):.1%}, b {accuracy(b):.1%}. Their average,")

methods = {"not aligned": "identity", "weight matching": "weight_matching", "deep align": "deep_align"}
curves = {}
for label, method in methods.items():
    alignment = align.match(a, b, method)
    aligned = alignment.apply(b)  # the same function as b, its neurons in a's order
    assert_close(aligned(x), b(x), rtol=1e-3, atol=1e-3)
    merged = align.merge(a, aligned)
    curves[label] = align.barrier(a, aligned, data=(x, y))
    print(f"  {label:16} {accuracy(merged):.1%}   loss barrier {float(curves[label]):.3f}   {alignment}")

plot_lines(curves, args.output, "Two digits networks, before and after alignment")
print(f"picture: {args.output}")
