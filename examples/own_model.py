"""A network of one's own, from tracing to merging: a small ResNet with BatchNorm.

Nothing about the model is declared anywhere: its symmetry is traced from the forward pass and checked numerically.

    python examples/own_model.py
    python examples/own_model.py --quick    # barely trained, few points on the line
"""

import argparse

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional as F

import align
from align.demo import digits, train
from align.plots import add_output, plot_line_panels
from wsgraph import to_graph
from wsgraph.testing import assert_function_preserved

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="train for one epoch only")
add_output(parser, __file__)
args = parser.parse_args()
torch.set_num_threads(1)  # small matrices: more threads only wait for one another


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(*conv(width, width), nn.ReLU(), *conv(width, width))

    def forward(self, x):
        return x + self.body(x)


class ResNet(nn.Module):
    """Two blocks on one stream of channels, then a hidden layer without a norm."""

    def __init__(self, width=32):
        super().__init__()
        self.stem = nn.Sequential(*conv(1, width, stride=2))
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.hidden = nn.Linear(4 * width, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.blocks(self.stem(x)))
        return self.head(F.relu(self.hidden(F.avg_pool2d(x, 2).flatten(1))))


def conv(inputs, outputs, stride=1):
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs)


def trained(seed):
    torch.manual_seed(seed)
    return train(ResNet(), data, seed, epochs=1 if args.quick else 10)


data, (x, y) = digits()
a, b = trained(1), trained(2)

# Trace and inspect: three layers write to the residual stream, so their channels move together, in one group.
spec = to_graph(a, x[:2]).spec
print(spec)
print("\nGroups that may be permuted:", ", ".join(f"{group.name} ({group.size})" for group in spec.free))

# Verify: the trace has checked itself already; on your own model you can ask again, and in your own tests.
error = assert_function_preserved(a, x[:8], spec)
print(f"A random permutation of all of them changes the outputs by {error:.0e}.\n")

# Align and merge. Averages shrink activations: BatchNorm statistics measured anew, or REPAIR, bring them back.
methods = {
    "not aligned": ("identity", {}),
    "weight matching": ("weight_matching", {}),
    "activation matching": ("activation_matching", {"data": data[0]}),
    "deep align": ("deep_align", {}),
}
table = Table(title="Accuracy of the average on unseen images")
for column in ("alignment", "as it is", "BatchNorm reset", "REPAIR"):
    table.add_column(column, justify="left" if column == "alignment" else "right")
# Measured anew at every point, the ends included: there, too, statistics differ a little from those of the training.
panels = {"BatchNorm statistics averaged": {}, "measured anew at every point,\nso the ends differ too": {}}
images, points = data[0], 7 if args.quick else 25
for label, (method, options) in methods.items():
    aligned = align.match(a, b, method, example_input=x[:2], seed=0, **options).apply(b)
    merged = [align.merge(a, aligned, repair=repair, data=images) for repair in ("none", "batchnorm", "repair")]
    table.add_row(label, *(f"{(model(x).argmax(1) == y).float().mean():.1%}" for model in merged))
    for curves, anew in zip(panels.values(), (None, images), strict=True):
        curves[label] = align.barrier(a, aligned, data=(x, y), points=points, reset_batchnorm=anew)
Console().print(table)
plot_line_panels(panels, args.output, "Two residual networks with BatchNorm")
print(f"picture: {args.output}")
