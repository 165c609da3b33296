import threading

import torch
from networks import Net
from torch import nn
from torch.nn import functional as F

from wsgraph import trace
from wsgraph.randomness import OwnDraws, seeded


def test_without_a_seed_it_is_always_the_same():
    assert torch.equal(seeded().get_state(), seeded(0).get_state())
    assert not torch.equal(seeded().get_state(), seeded(1).get_state())


def draw():
    x = torch.ones(2, 50)  # where an operator can be given a generator, and where not
    return [torch.rand(3), F.dropout(x), x.bernoulli(0.5), torch.randperm(9), nn.init.normal_(x), F.alpha_dropout(x)]


def test_draws_inside_are_the_same_and_torchs_generator_stays():
    before = torch.get_rng_state()
    with OwnDraws():
        first = draw()
    torch.rand(1)
    random = torch.get_rng_state()
    with OwnDraws():
        again = draw()
        assert not torch.equal(torch.rand(3), again[0])  # a stream, not the same number again and again
    assert all(map(torch.equal, first, again))
    assert torch.equal(torch.get_rng_state(), random)
    assert not torch.equal(before, random)


def test_vectorised_draws_differ_and_are_the_same_again():
    def noisy(x):
        return x + torch.randn(3)

    with OwnDraws():
        first = torch.vmap(noisy, randomness="different")(torch.zeros(2, 3))
    with OwnDraws():
        again = torch.vmap(noisy, randomness="different")(torch.zeros(2, 3))
    assert torch.equal(first, again)
    assert not torch.equal(first[0], first[1])


def test_threads_that_trace_networks_with_noise_leave_torchs_generator_alone():
    def forward(m, x):
        return m.b(torch.relu(m.a(x))) + torch.randn(3, 2, dtype=x.dtype)

    models = [Net(forward, a=nn.Linear(4, n), b=nn.Linear(n, 2)) for n in (5, 6, 7, 8)]
    threads = [threading.Thread(target=trace, args=(model, torch.ones(3, 4))) for model in models]
    before = torch.get_rng_state()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(torch.get_rng_state(), before)
