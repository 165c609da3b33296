"""A map of weight space: networks that learned the same lie close together, once permutations are factored out.

Digits networks learn one of three things, each from many seeds. The distance of their weights as they are blurs that;
the smallest distance over all permutations of their neurons shows it, without running a single network.

    python examples/weight_space_map.py
    python examples/weight_space_map.py --quick    # few networks, barely trained
"""

import argparse

import torch

import align
from align.demo import digits, train
from align.judging.distance import plane
from align.plots import add_output, plot_map
from align.zoo.architectures import mlp

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="few networks, barely trained")
add_output(parser, __file__)
args = parser.parse_args()
torch.set_num_threads(1)  # tiny matrices: more threads only wait for one another
torch.manual_seed(0)

count, epochs = (3, 2) if args.quick else (10, 20)
(x, y), _ = digits()
half = len(x) // 2  # every task has about as many images
tasks = {
    "digits 0–4": (x[y < 5], y[y < 5]),
    "digits 5–9": (x[y > 4], y[y > 4]),
    "random labels": (x[:half], y[torch.randperm(half)]),
}
labels = [task for task in tasks for _ in range(count)]
networks = [train(mlp((1, 8, 8), (32, 32)), tasks[task], seed, epochs) for seed, task in enumerate(labels)]


def neighbours(distances):
    """How many networks have one of their own task as nearest neighbour."""
    nearest = distances.fill_diagonal_(torch.inf).argmin(1).tolist()
    return sum(labels[i] == labels[j] for i, j in enumerate(nearest))


maps = {}
for title, method in {"not aligned": "identity", "weight matching": "weight_matching"}.items():
    distances = align.pairwise_distance(networks, method)
    points, right = plane(distances), f"{neighbours(distances)} of {len(networks)}"
    maps[f"{title}: {right}"] = points
    print(f"{title:16} {right} networks have a nearest neighbour that learned the same")

plot_map(maps, labels, args.output, "Distances of weights: whose nearest neighbour learned the same?")
print(f"picture: {args.output}")
