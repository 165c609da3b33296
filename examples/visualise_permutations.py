"""Look at what the learned aligner sees: scores, the permutation made of them, and the true one.

A trained network is compared with copies of itself whose neurons were shuffled and whose weights were disturbed, the
more the lower the row. So the true permutation is known: what undoes the shuffle.

    python examples/visualise_permutations.py
    python examples/visualise_permutations.py --quick    # barely trained
"""

import argparse

import torch

import align
from align.demo import digits, train
from align.plots import add_output, plot_permutations
from align.zoo.architectures import mlp
from wsgraph import Permutation, to_graph
from wsgraph.augment import Noise

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="train for one epoch only")
add_output(parser, __file__)
args = parser.parse_args()
torch.set_num_threads(1)  # tiny matrices: more threads only wait for one another
torch.manual_seed(0)

GROUP = "3"  # the second hidden layer: it can only be told by its weights to other layers that move too
model = train(mlp((1, 8, 8), (32, 32, 32)), digits()[0], seed=0, epochs=1 if args.quick else 20)
graph = to_graph(model)
aligner = align.DeepAlign()

pairs = {}
for noise in (0.1, 0.5, 1.0):
    shuffle = Permutation.random(graph.spec)
    alignment = aligner(graph, shuffle.apply(Noise(noise)(graph)))
    found, truth = alignment.permutation.maps[GROUP], shuffle.inverse().maps[GROUP]
    pairs[f"noise {noise:.0%}"] = alignment.scores[GROUP], found, truth
    print(f"noise of {noise:4.0%} of the weights' size: {int((found == truth).sum())} of {len(truth)} neurons right")

plot_permutations(pairs, args.output, "Deep align on shuffled, noisy copies of one network")
print(f"picture: {args.output}")
