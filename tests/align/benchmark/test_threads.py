from collections import Counter
from itertools import count

import pytest
import torch

from align.benchmark.threads import THREADS, calls, disturb, networks, same, state


@pytest.mark.parametrize(
    ("network", "chosen", "times"),
    [("MLP", ("match by activations", "barrier", "merge, repaired"), 20), ("CNN", None, 2)],
)
def test_threads_that_share_networks_do_not_notice_each_other(network, chosen, times):
    pair = networks()[network]
    before, random = [state(model) for model in pair], torch.get_rng_state()
    jobs = {name: job for name, job in calls(*pair).items() if chosen is None or name in chosen}
    found = disturb(jobs, times)
    assert found == {name: Counter(same=THREADS * times) for name in jobs}
    assert same(before, [state(model) for model in pair])
    assert torch.equal(torch.get_rng_state(), random)


def test_what_goes_wrong_is_counted():
    answers, fails = count(), []

    def raising():
        if fails:
            raise ZeroDivisionError
        fails.append(1)  # when it runs alone, to know the answer
        return []

    jobs = {"wrong": lambda: [torch.tensor(next(answers))], "raising": raising}
    found = disturb(jobs, 2, threads=2)
    assert found == {"wrong": Counter({"other answer": 4}), "raising": Counter({"raised ZeroDivisionError": 4})}


def test_a_call_by_somebody_else_is_noticed():
    model = networks()["MLP"][0]
    before = state(model)
    model.eval()
    assert not same(before, state(model))
    model.train()[1].eval()
    assert same(before, state(model))
    model(torch.randn(4, 6))  # counted by the hook
    assert not same(before, state(model))
