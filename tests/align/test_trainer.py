import pytest
import torch
from torch import nn

from align import DeepAlign, DeepAlignConfig, losses
from align.projection import sinkhorn
from align.trainer import TrainConfig, held_out_barrier, labelled, permute_softly, step_losses, train_aligner
from align.zoo.architectures import mlp
from align.zoo.family import build_family, stack
from align.zoo.together import Recipe, orders, seeded, train_together
from wsgraph import EncoderConfig, Permutation

SMALL = DeepAlignConfig(encoder=EncoderConfig(hidden=16, output=24, messages=16, sweeps=2))


def blobs(count=400, seed=0):
    """Three Gaussian classes in 6 dimensions."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (count,), generator=g)
    centres = 2 * torch.randn(3, 6, generator=torch.Generator().manual_seed(9))
    return centres[y] + torch.randn(count, 6, generator=g), y


@pytest.fixture(scope="module")
def family():
    return build_family("blobs", lambda: mlp((6,), (12, 12), 3), blobs(), blobs(seed=1), 12, 4, Recipe(8, 50, 1e-2))


def test_networks_trained_together_equal_networks_trained_alone():
    x, y = blobs()
    data, recipe, seeds = (x.double(), y), Recipe(epochs=2, batch=50, lr=1e-2), [3, 4]

    def make():
        return mlp((6,), (5,), 3).double()

    together = train_together(make, seeds, data, recipe)
    for seed, found in zip(seeds, together, strict=True):
        model = seeded(make, seed)
        optimiser = torch.optim.Adam(model.parameters(), lr=recipe.lr)
        for index in orders([seed], len(x), recipe):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(data[0][index[0]]), y[index[0]]).backward()
            optimiser.step()
        for name, p in model.state_dict().items():
            torch.testing.assert_close(found[name], p, rtol=1e-9, atol=1e-9)


def test_batchnorm_networks_are_refused_with_advice():
    make = lambda: nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))  # noqa: E731
    with pytest.raises(ValueError, match=r"BatchNorm.*one by one"):
        train_together(make, [0], blobs(), Recipe(1))


def test_the_label_of_a_permuted_copy_undoes_the_permutation(family):
    """F(a, t·a) = tᵀ: applying the label to the copy gives the network back."""
    config = TrainConfig(noise=0.0, mask=0.0, scale=1.0)
    copies, labels = labelled(family, family.train[:2], config, torch.Generator().manual_seed(0))
    for k in range(2):
        back = Permutation(family.spec, {g: m[k] for g, m in labels.items()}).apply(copies[k])
        for name, t in family.train[k].items():
            torch.testing.assert_close(back[name], t)


def test_supervised_loss_is_smallest_at_the_label_and_blind_to_swapping():
    label = torch.stack([torch.randperm(5) for _ in range(3)])
    right = 10 * nn.functional.one_hot(label, 5).double()
    wrong = right.roll(1, dims=-1)
    assert losses.supervised({"g": right}, {"g": label}) < 0.01 < losses.supervised({"g": wrong}, {"g": label})
    swapped = losses.supervised({"g": wrong.mT}, {"g": label.argsort(-1)})
    torch.testing.assert_close(swapped, losses.supervised({"g": wrong}, {"g": label}))


def test_alignment_loss_is_zero_only_for_the_right_permutation(family):
    a = stack(family.train[:2])
    assert losses.alignment(a, a, family.spec) == 0
    other = stack(family.train[1:3])
    assert losses.alignment(a, other, family.spec) > 0.1


def test_lmc_loss_is_the_task_loss_on_the_line(family):
    a, b, w = stack(family.train[:2]), stack(family.train[2:4]), torch.tensor([0.3, 0.8])
    batch = (family.data[0][:32], family.data[1][:32])
    expected = []
    for k in range(2):
        middle = {n: w[k] * a[n][k] + (1 - w[k]) * b[n][k] for n in a}
        expected.append(nn.functional.cross_entropy(family.module(middle)(batch[0]), batch[1]))
    torch.testing.assert_close(losses.lmc(family.template, a, b, w, batch), torch.stack(expected).mean())


def test_soft_permutations_of_a_stack_equal_one_by_one(family):
    maps = {g.name: sinkhorn(torch.randn(2, g.size, g.size)) for g in family.spec.free}
    moved = permute_softly(family.spec, maps, stack(family.train[:2]))
    for k in range(2):
        single = Permutation(family.spec, {g: m[k] for g, m in maps.items()}).apply(family.train[k])
        for name, t in single.items():
            torch.testing.assert_close(moved[name][k], t)


def test_training_lowers_the_held_out_barrier(family):
    torch.manual_seed(0)
    aligner = DeepAlign(SMALL)
    before = float(held_out_barrier(aligner.eval(), family, 8))
    seen = []
    train_aligner(aligner, [family], TrainConfig(steps=60, pairs=4), lambda k, v: seen.append(v["supervised"]))
    assert not aligner.training
    assert sum(seen[-10:]) < 0.5 * sum(seen[:10])
    assert float(held_out_barrier(aligner, family, 8)) < 0.8 * before


def test_training_is_reproducible(family):
    runs = []
    for _ in range(2):
        torch.manual_seed(0)
        aligner = train_aligner(DeepAlign(SMALL), [family], TrainConfig(steps=2, pairs=2))
        runs.append([p.detach() for p in aligner.parameters()])
    for p, q in zip(*runs, strict=True):
        assert torch.equal(p, q)


def test_a_diverged_loss_stops_with_advice(family):
    aligner = DeepAlign(SMALL)
    with torch.no_grad():
        aligner.s.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="not finite at step 0; lower lr"):
        train_aligner(aligner, [family], TrainConfig(steps=1, pairs=2))


def test_gradients_of_all_losses_are_finite(family):
    torch.manual_seed(0)
    aligner = DeepAlign(SMALL).train()
    parts = step_losses(aligner, family, TrainConfig(pairs=2), torch.Generator().manual_seed(0))
    sum(parts.values()).backward()
    assert all(torch.isfinite(p.grad).all() for p in aligner.parameters() if p.grad is not None)
