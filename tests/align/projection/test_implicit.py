import pytest
import torch

from align.projection.implicit import implicit_maps, sinkhorn_implicit
from wsgraph import Group, Param, Spec


def unrolled(logits, iterations):
    for _ in range(iterations):
        logits = logits - logits.logsumexp(-1, keepdim=True)
        logits = logits - logits.logsumexp(-2, keepdim=True)
    return logits.exp()


def gradient(function, logits, weight):
    z = logits.clone().requires_grad_()
    out = function(z)
    (out * weight).sum().backward()
    return out.detach(), z.grad


def solved(p, weight):
    """The gradient by the full system of both marginals, one of its unknowns fixed, without any elimination."""
    n = len(p)
    m = p * weight
    system = torch.zeros(2 * n, 2 * n, dtype=p.dtype)
    system[:n, n:], system[n:, :n] = p, p.T
    system += torch.diag(torch.cat([p.sum(1), p.sum(0)]))
    right = torch.cat([m.sum(1), m.sum(0)])
    x = torch.zeros(2 * n, dtype=p.dtype)
    x[:-1] = torch.linalg.solve(system[:-1, :-1], right[:-1])
    return m - p * (x[:n, None] + x[n:])


def example(n, scale):
    generator = torch.Generator().manual_seed(n)
    noise, weight = (torch.randn(n, n, generator=generator, dtype=torch.float64) for _ in range(2))
    return scale * (torch.eye(n) + 0.2 * noise), weight


@pytest.mark.parametrize("scale", [1, 5])
@pytest.mark.parametrize("n", [2, 6, 12])
def test_equals_the_unrolled_gradient(n, scale):
    logits, weight = example(n, scale)
    p, implicit = gradient(lambda z: sinkhorn_implicit(z, iterations=2000), logits, weight)
    q, expected = gradient(lambda z: unrolled(z, 2000), logits, weight)
    torch.testing.assert_close(p, q)
    torch.testing.assert_close(implicit, expected, atol=1e-6 * float(expected.abs().max()), rtol=0)


@pytest.mark.parametrize("iterations", [20, 1000])
@pytest.mark.parametrize("scale", [5, 10, 15, 20])
@pytest.mark.parametrize("n", [2, 6, 12])
def test_sharp_logits(n, scale, iterations):
    """No number of iterations reaches the fixed point here; the gradient is that of the marginals there are."""
    logits, weight = example(n, scale)
    p, implicit = gradient(lambda z: sinkhorn_implicit(z, iterations=iterations), logits, weight)
    expected = solved(p, weight)
    torch.testing.assert_close(implicit, expected, atol=1e-4 * float(expected.abs().max()), rtol=0)
    size = float(implicit.abs().max())
    assert float(implicit.sum(0).abs().max()) < 1e-4 * size  # marginals are kept
    assert float(implicit.sum(1).abs().max()) < 1e-4 * size


@pytest.mark.parametrize("scale", [30, 50, 200, 1000])
def test_the_gradient_of_hard_logits_fades_away(scale):
    noise, weight = example(8, 1)
    logits = scale * torch.eye(8, dtype=torch.float64)
    logits[:4, :4] = noise[:4, :4] + scale  # one half stays soft
    _, implicit = gradient(lambda z: sinkhorn_implicit(z, iterations=200), logits, weight)
    assert implicit.isfinite().all()
    assert float(implicit[4:].abs().max()) < 1e-9
    assert 1e-3 < float(implicit[:4].abs().max()) < 1


def test_one_neuron():
    _, implicit = gradient(lambda z: sinkhorn_implicit(z), torch.ones(1, 1), torch.ones(1, 1))
    assert float(implicit) == 0


def test_finite_differences():
    logits = torch.randn(2, 4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: sinkhorn_implicit(z, 0.7, 500), (logits,), atol=1e-6)


def test_a_hard_matrix_has_a_finite_gradient_that_vanishes():
    logits = (1e3 * torch.eye(5)[torch.tensor([2, 0, 1, 4, 3])]).requires_grad_()
    weight = torch.randn(5, 5)
    (sinkhorn_implicit(logits) * weight).sum().backward()
    torch.testing.assert_close(logits.grad, torch.zeros(5, 5))


def test_incoming_gradient_is_not_changed_and_float32_stays():
    logits, weight = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    kept = weight.clone()
    sinkhorn_implicit(logits).backward(weight)
    assert torch.equal(weight, kept)
    assert logits.grad.dtype == torch.float32


def test_nested_groups_are_refused():
    spec = Spec([Group("h", 2), Group("d", 4, parent="h")], [Param("w", ("d",), "bias")])
    with pytest.raises(ValueError, match=r"does not know nested groups \(\['d'\]\); use gradient='unrolled'"):
        implicit_maps(spec, {"h": torch.zeros(2, 2), "d": torch.zeros(4, 4)})
