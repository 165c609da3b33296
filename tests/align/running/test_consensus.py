"""Where there are no targets, the networks' own mean answers stand for them."""

import pytest
import torch
from networks import mlp
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from align.running.consensus import answered, class_dim, has_targets, probes, soft_cross_entropy


def pair(*widths):
    return mlp(*widths).eval(), mlp(*widths).eval()


def test_targets_that_are_given_stay():
    a, b = pair(4, 6, 3)
    data = torch.randn(5, 4), torch.randint(3, (5,))
    assert answered(a, b, data, F.cross_entropy) == (data, F.cross_entropy)
    loader = DataLoader(TensorDataset(*data))
    assert answered(a, b, loader, F.mse_loss) == (loader, F.mse_loss)


def test_classifiers_answer_with_mean_probabilities():
    a, b = pair(4, 6, 3)
    x = torch.randn(7, 4)
    (inputs, targets), loss = answered(a, b, x, F.cross_entropy)
    torch.testing.assert_close(inputs, x)
    torch.testing.assert_close(targets, ((a(x).softmax(-1) + b(x).softmax(-1)) / 2).detach())
    assert loss is soft_cross_entropy
    torch.testing.assert_close(loss(targets.log(), targets), torch.zeros(()), atol=1e-6, rtol=0)
    expected = F.kl_div(a(x).log_softmax(-1), targets, reduction="batchmean")
    torch.testing.assert_close(loss(a(x), targets), expected)


@pytest.mark.parametrize(("outputs", "given"), [(1, F.cross_entropy), (1, F.mse_loss), (3, F.l1_loss)])
def test_others_answer_with_mean_outputs(outputs, given):
    a, b = pair(4, 6, outputs)
    x = torch.randn(7, 4)
    (_, targets), loss = answered(a, b, x, given)
    torch.testing.assert_close(targets, ((a(x) + b(x)) / 2).detach())
    assert loss is (F.mse_loss if given is F.cross_entropy else given)


def test_loaders_are_answered_batch_by_batch_and_again():
    a, b = pair(4, 6, 3)
    x = torch.randn(6, 4)
    found, _ = answered(a, b, list(x.split(2)), F.cross_entropy)
    once, again = list(found), list(found)
    assert [len(y) for _, y in once] == [2, 2, 2]
    torch.testing.assert_close(once, again)


def test_networks_in_training_answer_as_they_are_used():
    a, b = (nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3)) for _ in range(2))
    state = {k: t.clone() for k, t in a.state_dict().items()}
    x = torch.randn(8, 4)
    (_, targets), _ = answered(a, b, x, F.cross_entropy)
    assert a.training
    assert all(torch.equal(t, state[k]) for k, t in a.state_dict().items())
    torch.testing.assert_close(targets, ((a.eval()(x).softmax(-1) + b.eval()(x).softmax(-1)) / 2).detach())


def test_probes_are_noise_or_tokens():
    a, b = pair(4, 6, 3)
    (x, _), _ = answered(a, b, "noise", F.cross_entropy, samples=50, generator=torch.Generator().manual_seed(0))
    assert x.shape == (50, 4)
    reader = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 2))
    tokens = torch.cat(list(probes(reader, example_input=torch.zeros(1, 5, dtype=torch.long))))
    assert tokens.shape == (256, 5)
    assert set(tokens.flatten().tolist()) == set(range(9))


def test_where_classes_are():
    assert class_dim(torch.zeros(2, 3)) == class_dim(torch.zeros(2, 5, 3)) == -1
    assert class_dim(torch.zeros(2, 3, 8, 8)) == 1


def test_whether_there_are_targets():
    x, y = torch.randn(4, 2), torch.randint(2, (4,))
    assert has_targets((x, y))
    assert has_targets([(x, y)])
    assert not has_targets(x)
    assert not has_targets([x, x, x])
    assert not has_targets([(x,)])
