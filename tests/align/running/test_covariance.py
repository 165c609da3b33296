import math
from itertools import pairwise

import torch
from networks import mlp
from torch import nn

from align.running.covariance import CLOSE, covariances
from align.zoo.varied import Recurrent
from wsgraph import to_graph
from wsgraph.testing import random_graph


def other(graph):
    return graph.replace({k: torch.randn_like(t) if t.is_floating_point() else t for k, t in graph.tensors.items()})


def found(a, b, **options):
    """Correlations between two networks: forward and backward, group name → ``[n_a, n_b]``."""
    return [{k: c.correlations().ab[0] for k, c in t.items()} for t in covariances([a.network], [b.network], **options)]


def net(*widths, activation=nn.ReLU, norm=None):
    layers = []
    for n, m in pairwise(widths):
        layers += [nn.Linear(n, m, bias=False), *([norm(m)] if norm else []), activation()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 3, bias=False)).double().eval()


def activations(model, x, layer):
    """Before the ``layer``-th module."""
    return model[:layer](x)


def correlation(x, y):
    x, y = ((v - v.mean(0)) / v.std(0, correction=0) for v in (x, y))
    return x.T @ y / len(x)


@torch.no_grad()
def test_forward_is_how_activations_on_noise_vary_together():
    """Measured on samples; the widths make the arguments of the second layer nearly Gaussian."""
    torch.manual_seed(0)
    a, b = net(20, 200, 6), net(20, 200, 6)
    x = torch.randn(40_000, 20, dtype=torch.float64)
    forward, _ = found(to_graph(a), to_graph(b))
    measured = correlation(activations(a, x, 3), activations(b, x, 3))
    assert (forward["2"] - measured).abs().max() < 0.03
    assert measured.abs().max() > 0.2


def test_gradients_pass_where_both_neurons_are_active():
    torch.manual_seed(0)
    a, b = net(5, 4, 6), net(5, 4, 6)
    forward, backward = found(to_graph(a), to_graph(b))
    (va, ua), (vb, ub) = ([m[k].weight.detach() for k in (2, 4)] for m in (a, b))

    def within(model):
        return found(to_graph(model), to_graph(model))[0]["2"]

    def passed(v, u, w, t, r):
        # twice the probability that two Gaussians of correlation r are positive
        both = 1 - torch.arccos(r.clamp(max=CLOSE)) / math.pi
        return v.T @ (u.T @ t * both) @ w

    ab = passed(va, ua, vb, ub, forward["2"])
    aa, bb = (passed(v, u, v, u, within(m)).diagonal() for m, v, u in ((a, va, ua), (b, vb, ub)))
    torch.testing.assert_close(backward["0"], ab / (aa[:, None] * bb).sqrt())


def test_linear_networks_are_what_their_products_say():
    torch.manual_seed(0)
    a, b = (net(5, 7, 6, activation=nn.Identity) for _ in range(2))
    forward, backward = found(to_graph(a), to_graph(b))
    unit = lambda w: w / w.norm(dim=1, keepdim=True)  # noqa: E731
    (wa, va, ua), (wb, vb, ub) = ([m[k].weight.detach() for k in (0, 2, 4)] for m in (a, b))
    torch.testing.assert_close(forward["2"], unit(va @ wa) @ unit(vb @ wb).T)
    torch.testing.assert_close(backward["0"], unit((ua @ va).T) @ unit((ub @ vb).T).T)


def test_a_norm_makes_the_scale_of_weights_meaningless():
    torch.manual_seed(0)
    a, b = (net(5, 7, 6, norm=nn.BatchNorm1d) for _ in range(2))
    scaled = net(5, 7, 6, norm=nn.BatchNorm1d)
    scaled.load_state_dict(b.state_dict())
    factors = torch.linspace(0.5, 2, 7, dtype=torch.float64)
    scaled[0].weight.data *= factors[:, None]
    scaled[1].running_var.data = (b[1].running_var + 1e-5) * factors**2 - 1e-5
    for x, y in zip(found(to_graph(a), to_graph(b)), found(to_graph(a), to_graph(scaled)), strict=True):
        for group in x:
            torch.testing.assert_close(x[group], y[group])


def test_streams_and_kernels_and_recurrent_layers_have_evidence():
    for seed in range(8):
        graph = random_graph(seed)
        forward, backward = found(graph, other(graph))
        assert forward.keys() | backward.keys() <= {g.name for g in graph.spec.free}
        assert all(r.isfinite().all() and r.abs().max() <= 1 for t in (forward, backward) for r in t.values())
    a = to_graph(Recurrent((1, 4, 4), width=6), torch.randn(2, 1, 4, 4))
    assert [len(t) for t in found(a, other(a))] == [1, 1]


def test_a_batch_gives_the_answers_of_single_calls():
    a = [random_graph(3) for _ in range(2)]
    a[1], b = other(a[0]), [other(a[0]), other(a[0])]
    together = covariances([g.network for g in a], [g.network for g in b])
    for k in range(2):
        alone = covariances([a[k].network], [b[k].network])
        for x, y in zip(together, alone, strict=True):
            for group in x:
                torch.testing.assert_close(x[group].ab[k], y[group].ab[0])


def test_different_widths():
    a, b = to_graph(mlp(3, 4, 5, 2)), to_graph(mlp(3, 6, 4, 2))
    forward, backward = found(a, b)
    assert forward["2"].shape == (5, 4)
    assert backward["0"].shape == (4, 6)
