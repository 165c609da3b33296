"""Align and merge two views of one signal: implicit neural representations, from coordinates to values.

Two sine networks are fitted to the same wave (or the same image) from different seeds. They are the same function, yet
the average of their weights is not, until one is aligned to the other.

    python examples/align_inrs.py
    python examples/align_inrs.py --signal digit
    python examples/align_inrs.py --quick            # barely fitted
"""

import argparse
import math

import torch
from torch.nn import functional as F

import align
from align.demo import digits
from align.plots import add_output, plot_curves, plot_images
from align.zoo.architectures import inr

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--signal", choices=("wave", "digit"), default="wave", help="what the networks represent")
parser.add_argument("--quick", action="store_true", help="few steps")
add_output(parser, __file__)
args = parser.parse_args()
torch.set_num_threads(1)  # tiny matrices: more threads only wait for one another

line = torch.linspace(-math.pi, math.pi, 256 if args.signal == "wave" else 8)
if args.signal == "wave":
    x = line[:, None]
    y = torch.sin(2 * x)
else:
    x = torch.cartesian_prod(line, line)
    y = digits()[0][0][3].view(64, 1)  # the pixels of one image


def fitted(seed):
    """A network fitted to the signal."""
    torch.manual_seed(seed)
    # A gentle frequency: at SIREN's usual 30, no method here finds a permutation after which averages make sense.
    model = inr(x.shape[1], 1, hidden=128, frequency=1.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(100 if args.quick else 300):
        optimiser.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimiser.step()
    return model.eval()


a, b = fitted(0), fitted(1)
steps = 20 if args.quick else 300
on_signal = {"data": (x, y), "loss": F.mse_loss, "iterations": steps, "batch_size": len(x)}
methods = {
    "not aligned": ("identity", {}),
    "weight matching": ("weight_matching", {}),
    "deep align": ("deep_align", {}),
    "deep align + sinkhorn": ("deep_align+sinkhorn", on_signal),
}
shown, errors = {"the signal": y}, {}
print(f"error of the views: a {F.mse_loss(a(x), y):.4f}, b {F.mse_loss(b(x), y):.4f}; of their average,")
for label, (method, options) in methods.items():
    alignment = align.match(a, b, method, seed=0, **options)
    shown[label] = align.merge(a, b, alignment=alignment)(x).detach()
    errors[label] = f"{F.mse_loss(shown[label], y):.4f}"
    print(f"  {label:22} {errors[label]}   ({alignment.elapsed:.2f} s)")
print(f"One easy pair, {steps} Sinkhorn steps; on the many pairs of docs/results.md, no method does well on INRs.")

title = "Two networks of one signal: the average of their weights, and its error"
if args.signal == "wave":
    curves = {f"{k} ({errors[k]})" if k in errors else k: (x.flatten(), v.flatten()) for k, v in shown.items()}
    plot_curves(curves, args.output, "x", "value", title, target="the signal")
else:
    images, captions = ({k: v.view(8, 8) for k, v in shown.items()}, {k: f"error {v}" for k, v in errors.items()})
    plot_images(images, args.output, title, captions)
print(f"picture: {args.output}")
