"""Merge many networks at once, without one of them being the boss.

Aligning each network to the first, the `reference`, is the simple way. `merge_many` lets each match the mean of the
others in turn, and `universe` finds one frame for all, group by group. Their matches are consistent: going from c to b
and on to a is the same as going from c to a.

    python examples/merge_many.py
    python examples/merge_many.py --quick    # few networks, barely trained
"""

import argparse

import torch
from rich.console import Console
from rich.table import Table

import align
from align.demo import digits, network, train
from align.plots import add_output, plot_curves

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="few networks, barely trained")
add_output(parser, __file__)
args = parser.parse_args()
torch.set_num_threads(1)  # tiny matrices: more threads only wait for one another

counts, epochs = ((2, 3), 1) if args.quick else ((2, 4, 6, 8, 10), 20)
data, (x, y) = digits()
models = [train(network(seed), data, seed, epochs) for seed in range(max(counts))]


def errors(outputs):
    """Percentage of wrong answers."""
    return 100 * float((outputs.argmax(1) != y).float().mean())


def average(members, strategy):
    """The mean of the networks after they were brought into one frame."""
    if strategy == "not aligned":
        return align.merge(*members)
    universe = align.match_many(members, strategy)
    assert universe.between(0, 1) @ universe.between(1, -1) == universe.between(0, -1)  # no detour changes a match
    return align.merge(*universe.apply(members))


table = Table(title="Errors on unseen images, by number of networks")
table.add_column("method")
for count in counts:
    table.add_column(str(count), justify="right")
curves = {}
with torch.no_grad():
    for strategy in ("not aligned", "reference", "merge_many", "universe"):
        found = [errors(average(models[:count], strategy)(x)) for count in counts]
        curves[strategy] = counts, found
    singles = [errors(model(x)) for model in models]
    curves["one network (mean)"] = counts, [sum(singles[:count]) / count for count in counts]
    outputs = torch.stack([model(x).softmax(1) for model in models])
    curves["all of them vote"] = counts, [errors(outputs[:count].mean(0)) for count in counts]
for label, (_, found) in curves.items():
    table.add_row(label, *(f"{value:.1f} %" for value in found))
Console().print(table)
title = "One network made of many"
plot_curves(curves, args.output, "number of networks", "errors on unseen images, %", title, scale="log")
print(f"picture: {args.output}")
