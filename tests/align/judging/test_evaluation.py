from dataclasses import replace

import pytest
import torch

import align
from align import Alignment, DeepAlign, DeepAlignConfig, barrier
from align.judging.evaluation import Validation, aligned, line_barrier, pairs_of
from align.zoo import Recipe, Zoo, ZooConfig, build
from wsgraph import EncoderConfig, Permutation

SMALL = DeepAlignConfig(encoder=EncoderConfig(hidden=16, output=24, messages=16, sweeps=2))


def test_pairs_are_different_networks_of_the_part(tiny_zoo):
    members = set(tiny_zoo.members("test"))
    pairs = pairs_of(tiny_zoo, "test", 100)
    assert len(pairs) == len(set(pairs)) == len(members) * (len(members) - 1)
    assert all(i != j and {i, j} <= members for i, j in pairs)
    assert pairs_of(tiny_zoo, "test", 3) == pairs[:3]


def test_pairs_of_views_show_one_item_once(wave_zoo):
    pairs = pairs_of(wave_zoo, "train", 100)
    assert [i // 2 for i, _ in pairs] == [j // 2 for _, j in pairs] == sorted({i // 2 for i, _ in pairs})
    assert all(i != j for i, j in pairs)


def test_items_with_one_view_have_no_pairs(wave_zoo):
    zoo = Zoo(wave_zoo.folder)
    zoo.config = replace(zoo.config, views=1)
    assert pairs_of(zoo, "train", 100) == []


def test_barriers_of_classifiers_are_those_of_the_plain_function(tiny_zoo):
    pairs = pairs_of(tiny_zoo, "test", 2)
    moved = [tiny_zoo.module(j) for _, j in pairs]
    x, y = tiny_zoo.task.samples("test")
    expected = barrier([tiny_zoo.module(i) for i, _ in pairs], moved, data=(x[:100], y[:100]), points=5)
    torch.testing.assert_close(line_barrier(tiny_zoo, pairs, moved, samples=100, points=5).loss, expected.loss)


def test_barriers_of_views_are_measured_on_their_own_signal(wave_zoo):
    pairs = pairs_of(wave_zoo, "train", 2)
    found = line_barrier(wave_zoo, pairs, [wave_zoo.module(j) for _, j in pairs], points=3)
    assert found.loss.shape == (2, 3)
    for k, (i, j) in enumerate(pairs):
        for end, number in ((0, j), (2, i)):  # the ends of the line are the networks themselves
            assert float(found.loss[k, end]) == pytest.approx(wave_zoo.records[number].test_loss, rel=1e-3)


def test_batchnorm_is_reset_along_the_line(tmp_path):
    config = ZooConfig("bn", "resnet20", {"width": 0.125}, shape=(3, 8, 8), recipe=Recipe(1, 256, 1e-2), together=1)
    zoo = build(config, 2, tmp_path)
    modules = [zoo.module(n) for n in (0, 1)]
    x, y = zoo.task.samples("test")
    found = line_barrier(zoo, [(0, 1)], [modules[1]], samples=64, points=3)
    data, inputs = (x[:64], y[:64]), zoo.task.samples("train")[0][:1_000]
    reset = barrier([modules[0]], [modules[1]], data=data, points=3, reset_batchnorm=inputs)
    torch.testing.assert_close(found.loss, reset.loss)


def test_aligned_networks_keep_their_function(tiny_zoo):
    torch.manual_seed(0)
    pairs = pairs_of(tiny_zoo, "val", 3)
    x = tiny_zoo.task.samples("test")[0][:16]
    for module, (_, j) in zip(aligned(DeepAlign(SMALL), tiny_zoo, pairs), pairs, strict=True):
        torch.testing.assert_close(module(x), tiny_zoo.module(j)(x), atol=1e-4, rtol=1e-4)


def test_the_second_network_is_aligned_to_the_first(tiny_zoo):
    pairs = pairs_of(tiny_zoo, "val", 3)
    aligner = DeepAlign().train()
    for module, (i, j) in zip(aligned(aligner, tiny_zoo, pairs), pairs, strict=True):
        expected = DeepAlign()(tiny_zoo.graph(i), tiny_zoo.graph(j)).apply(tiny_zoo.module(j)).state_dict()
        assert all(torch.equal(t, expected[k]) for k, t in module.state_dict().items())


def test_validation_is_on_samples_the_networks_learned_from(tiny_zoo, monkeypatch):
    seen = []
    monkeypatch.setattr("align.judging.evaluation.line_barrier", lambda *args: seen.append(args[3:]) or 1.0)
    assert Validation([tiny_zoo])(DeepAlign(SMALL)).value == 1
    assert seen == [("train", 500, 3)] * 4


def test_the_aligner_stays_in_its_mode(tiny_zoo):
    class Watched(DeepAlign):
        def forward(self, a, b):
            modes.append((self.training, aligner.training))
            return super().forward(a, b)

    modes = []
    aligner = Watched(SMALL).train()
    aligned(aligner, tiny_zoo, pairs_of(tiny_zoo, "val", 2))
    assert modes == [(False, True)]


def test_networks_are_brought_to_where_the_aligner_is(tiny_zoo):
    class Elsewhere(DeepAlign):
        def forward(self, a, b):
            assert all(t.is_meta for graph in (*a, *b) for t in graph.tensors.values())
            return [Alignment(x, y, maps=Permutation.identity(x.spec).maps) for x, y in zip(a, b, strict=True)]

    moved = aligned(Elsewhere(SMALL).to("meta"), tiny_zoo, pairs_of(tiny_zoo, "val", 2))
    assert not any(p.is_meta for module in moved for p in module.parameters())


def test_validation_is_relative_to_the_better_classic_method(tiny_zoo, monkeypatch):
    def classic(method, **options):
        def moved(aligner, zoo, pairs):
            modules = [[zoo.module(n) for n in pair] for pair in pairs]
            return [
                align.match(a, b, method, example_input=zoo.config.example_input(), **options).apply(b)
                for a, b in modules
            ]

        monkeypatch.setattr("align.judging.evaluation.aligned", moved)
        return Validation([tiny_zoo])(DeepAlign(SMALL)).value

    both = classic("weight_matching"), classic("activation_matching", data="noise", samples=1_000)
    assert min(both) == pytest.approx(1.0, rel=1e-4)
    assert classic("identity") > 2 * max(both)


def test_validation_is_the_geometric_mean_over_zoos(tiny_zoo, monkeypatch):
    judge = Validation([tiny_zoo, tiny_zoo])
    judge.references = [(0.1, 0.3), (0.1, 0.7)]
    monkeypatch.setattr("align.judging.evaluation._bump", lambda *_: 0.7)
    look = judge(DeepAlign(SMALL))
    assert look.ratios == pytest.approx((2.0, 1.0))
    assert look.value == pytest.approx(2**0.5)


def test_a_zoo_without_pairs_has_the_usual_need(tiny_zoo, monkeypatch):
    lonely = Zoo(tiny_zoo.folder)
    lonely.records = {n: r for n, r in lonely.records.items() if r.part != "val"}
    monkeypatch.setattr("align.judging.evaluation._bump", lambda *_: 0.7)
    look = Validation([tiny_zoo, lonely])(DeepAlign(SMALL))
    assert look.ratios[1] == 1
    assert look.value == look.ratios[0]


def test_a_zoo_without_validation_networks_says_so(tiny_zoo):
    zoo = Zoo(tiny_zoo.folder)
    zoo.records = {n: r for n, r in zoo.records.items() if r.part != "val"}
    with pytest.raises(ValueError, match=r"no zoo has two validation networks; build more \(zoo.count=\), or set"):
        Validation([zoo])
