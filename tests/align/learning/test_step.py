import torch

from align import DeepAlign, DeepAlignConfig
from align.learning.pairs import LabelledPairs, UnlabelledPairs
from align.learning.settings import TrainConfig
from align.learning.step import permutations, permute_softly, stack, step_losses, task_batch
from align.projection.sinkhorn import sinkhorn
from align.zoo import Zoo
from wsgraph import EncoderConfig, Permutation

SMALL = DeepAlignConfig(encoder=EncoderConfig(hidden=16, output=24, messages=16, sweeps=2))


def pairs(zoo, count=2):
    return [UnlabelledPairs(zoo)[k] for k in range(count)], [LabelledPairs(zoo)[k] for k in range(count)]


def test_soft_permutations_of_a_stack_equal_one_by_one(tiny_zoo):
    maps = {g.name: sinkhorn(torch.randn(2, g.size, g.size)) for g in tiny_zoo.spec.free}
    networks = [tiny_zoo.tensors(n) for n in (0, 1)]
    moved = permute_softly(tiny_zoo.spec, maps, stack(networks))
    for k in range(2):
        single = Permutation(tiny_zoo.spec, {g: m[k] for g, m in maps.items()}).apply(networks[k])
        for name, t in single.items():
            torch.testing.assert_close(moved[name][k], t)


def test_gradients_of_all_losses_are_finite(tiny_zoo, wave_zoo):
    for zoo in (tiny_zoo, wave_zoo):
        torch.manual_seed(0)
        aligner = DeepAlign(SMALL).train()
        parts = step_losses(aligner, *pairs(zoo), TrainConfig(), 0)
        assert set(parts) == {"supervised", "lmc"} | ({"alignment"} if zoo is tiny_zoo else set())
        sum(parts.values()).backward()
        assert all(torch.isfinite(p.grad).all() for p in aligner.parameters() if p.grad is not None)


def test_every_parameter_learns(tiny_zoo):
    """Scores of training are those of evaluation, evidence included."""
    torch.manual_seed(0)
    aligner = DeepAlign(SMALL).train()
    sum(step_losses(aligner, *pairs(tiny_zoo), TrainConfig(), 0).values()).backward()
    # tiny_zoo's networks have no norm, and every one-axis parameter is next to a block
    idle = {name for name, p in aligner.named_parameters() if p.grad is None}
    assert {name.split(".")[-2] for name in idle} <= {"read", "loose"}


def test_losses_of_weight_zero_are_not_computed(tiny_zoo, monkeypatch):
    def never(*args):
        raise AssertionError

    monkeypatch.setattr("align.learning.losses.lmc", never)
    monkeypatch.setattr("align.learning.losses.supervised", never)
    config = TrainConfig(lmc=0.0, supervised=0.0)
    assert set(step_losses(DeepAlign(SMALL), *pairs(tiny_zoo), config, 0)) == {"alignment"}


def test_a_step_works_wherever_the_aligner_is(tiny_zoo):
    zoo = Zoo(tiny_zoo.folder)
    aligner = DeepAlign(SMALL).to("meta").train()
    parts = step_losses(aligner, *pairs(zoo), TrainConfig(), 0)
    assert all(value.is_meta for value in parts.values())
    sum(parts.values()).backward()
    assert aligner.s.grad.is_meta
    assert not any(p.is_meta for p in zoo.template.parameters())  # which others use, too


def test_losses_do_not_depend_on_how_pairs_are_batched(tiny_zoo):
    torch.manual_seed(0)
    aligner = DeepAlign(SMALL).double().train()
    plain, labelled = pairs(tiny_zoo, 4)
    config = TrainConfig(activation=1.0)
    whole = step_losses(aligner.float(), plain, labelled, config, 3)
    halves = [step_losses(aligner, plain[k : k + 2], labelled[k : k + 2], config, 3) for k in (0, 2)]
    for name, value in whole.items():
        torch.testing.assert_close((halves[0][name] + halves[1][name]) / 2, value, rtol=1e-4, atol=1e-5)


def test_hard_permutations_have_hard_values_and_soft_gradients(tiny_zoo):
    scores = {g.name: torch.randn(3, g.size, g.size, requires_grad=True) for g in tiny_zoo.spec.free}
    hard = permutations(tiny_zoo.spec, scores, TrainConfig(hard=True))
    for name, p in hard.items():
        torch.testing.assert_close(p.sum(-1), torch.ones(3, p.shape[-1]))
        assert ((p - p.round()).abs() < 1e-6).all()
        (p * torch.randn_like(p)).sum().backward()
        assert scores[name].grad.abs().max() > 0


def test_samples_depend_on_the_step_alone(wave_zoo):
    plain, _ = pairs(wave_zoo)
    config = TrainConfig(images=5)
    x, y = task_batch(plain, config, 7)
    assert x.shape == (5, 1)
    assert y.shape == (2, 5, 1)
    again, _ = task_batch(plain[:1], config, 7)
    torch.testing.assert_close(x, again)
    assert not torch.equal(x, task_batch(plain, config, 8)[0])


def test_the_weight_of_a_loss_may_fade(tiny_zoo):
    """To nothing after the last step, so that there is a loss in every step, be it the only one."""
    config = TrainConfig(steps=4, supervised=0.0, lmc=0.0, alignment=1.0, alignment_end=0.0)
    assert [config.weights(tiny_zoo, k) for k in range(4)] == [{"alignment": w} for w in (1.0, 0.75, 0.5, 0.25)]
    config = TrainConfig(steps=4, supervised=0.0, lmc=1.0, alignment=0.0, activation=2.0)
    assert [config.weights(tiny_zoo, k)["activation"] for k in range(4)] == [2.0, 1.5, 1.0, 0.5]
    assert {TrainConfig(steps=4).weights(tiny_zoo, k)["alignment"] for k in range(4)} == {1.0}
