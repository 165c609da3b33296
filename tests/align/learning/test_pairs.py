from dataclasses import replace

import pytest
import torch

from align.learning.pairs import LabelledPairs, OneZooAtATime, UnlabelledPairs, pair_loader
from align.zoo import Zoo
from wsgraph.augment import Noise
from wsgraph.mirror import mirror


def content(batches):
    return [[float(t.double().sum()) for g in (p.a, p.b) for t in g.tensors.values()] for b in batches for p in b]


def test_the_label_of_a_permuted_copy_undoes_the_permutation(tiny_zoo):
    """F(a, t·a) = tᵀ: applying the label to the copy gives the network back."""
    for pair in LabelledPairs(tiny_zoo, count=3):
        back = pair.label.apply(pair.b)
        assert not torch.equal(pair.b.tensors["1.weight"], pair.a.tensors["1.weight"])
        for name, t in pair.a.tensors.items():
            torch.testing.assert_close(back.tensors[name], t)


def test_augmentations_follow_one_another(tiny_zoo):
    pairs = LabelledPairs(tiny_zoo, augment=[Noise(0.0), Noise(0.1)], count=4)
    gaps = [
        max(float((pair.label.apply(pair.b).tensors[k] - t).abs().max()) for k, t in pair.a.tensors.items())
        for pair in pairs
    ]
    assert gaps[:2] == [0, 0]
    assert min(gaps[2:]) > 0


def test_only_the_copy_is_augmented(tiny_zoo):
    pair = LabelledPairs(tiny_zoo, augment=Noise(0.1))[0]
    originals = [tiny_zoo.tensors(n)["1.weight"] for n in tiny_zoo.members("train")]
    assert any(torch.equal(pair.a.tensors["1.weight"], t) for t in originals)
    back = pair.label.apply(pair.b).tensors["1.weight"]
    gap = (back - pair.a.tensors["1.weight"]).std() / pair.a.tensors["1.weight"].std()
    assert 0.05 < gap < 0.2


def test_unlabelled_pairs_are_different_networks_of_the_part(tiny_zoo):
    members = {n: tiny_zoo.tensors(n)["1.weight"] for n in tiny_zoo.members("val")}
    for pair in UnlabelledPairs(tiny_zoo, "val", count=20):
        a, b = (next(n for n, t in members.items() if torch.equal(t, g.tensors["1.weight"])) for g in (pair.a, pair.b))
        assert a != b
        assert pair.label is None


def test_half_of_the_networks_are_mirrored_and_the_choice_of_pairs_stays(tiny_zoo):
    plain, seen = UnlabelledPairs(tiny_zoo, count=40), UnlabelledPairs(tiny_zoo, count=40, mirrored=True)
    mirrored = 0
    for pair, other in zip(plain, seen, strict=True):
        for graph, got in ((pair.a, other.a), (pair.b, other.b)):
            same = torch.equal(got.tensors["1.weight"], graph.tensors["1.weight"])
            assert same or torch.equal(got.tensors["1.weight"], mirror(graph).tensors["1.weight"])
            mirrored += not same
    assert 25 <= mirrored <= 55


def test_signals_are_not_mirrored(wave_zoo):
    with pytest.raises(ValueError, match="a mirrored network has a mirrored signal"):
        UnlabelledPairs(wave_zoo, mirrored=True)


def test_views_are_paired_with_views_of_the_same_item(wave_zoo):
    for pair in UnlabelledPairs(wave_zoo, count=10):
        views = [wave_zoo.tensors(n)["0.weight"] for n in (2 * pair.item, 2 * pair.item + 1)]
        given = [pair.a.tensors["0.weight"], pair.b.tensors["0.weight"]]
        assert any(all(torch.equal(x, y) for x, y in zip(given, order, strict=True)) for order in (views, views[::-1]))


def test_a_stream_is_the_same_wherever_it_is_entered(tiny_zoo, wave_zoo):
    sets = [UnlabelledPairs(z, count=100, seed=3) for z in (tiny_zoo, wave_zoo)]
    whole = list(pair_loader(sets, 4, range(6), seed=3))
    later = list(pair_loader(sets, 4, range(4, 6), seed=3))
    assert content(whole[4:]) == content(later)
    assert all(len({p.zoo.config.name for p in batch}) == 1 for batch in whole)
    assert {batch[0].zoo.config.name for batch in whole} == {"tiny", "waves"}
    other = list(pair_loader([UnlabelledPairs(tiny_zoo, count=100, seed=4)], 4, range(1), seed=4))
    assert content(other) != content(pair_loader(sets[:1], 4, range(1), seed=3))


def test_processes_share_each_batch(tiny_zoo):
    sets = [LabelledPairs(tiny_zoo, count=64)]
    whole = list(pair_loader(sets, 4, range(3)))
    shares = [list(pair_loader(sets, 4, range(3), rank=r, world=2)) for r in range(2)]
    for batch, first, second in zip(whole, *shares, strict=True):
        assert content([batch]) == content([first, second])
    with pytest.raises(ValueError, match="5 pairs per batch cannot be shared evenly by 2"):
        OneZooAtATime([8], [1.0], 5, range(1), world=2)


def test_background_workers_give_the_same_pairs(tiny_zoo):
    sets = [UnlabelledPairs(tiny_zoo, count=16)]
    here, there = (list(pair_loader(sets, 4, range(2), workers=w)) for w in (0, 1))
    assert content(here) == content(there)


def test_zoos_are_drawn_by_need():
    draws = [batch[0] // 10 for batch in OneZooAtATime([10, 10], [1.0, 3.0], 1, range(400))]
    assert 0.68 < sum(draws) / len(draws) < 0.82
    assert {batch[0] // 10 for batch in OneZooAtATime([10, 10], [0.0, 1.0], 1, range(20))} == {1}


def test_items_with_one_view_have_no_pairs(wave_zoo):
    zoo = Zoo(wave_zoo.folder)
    zoo.config = replace(zoo.config, views=1)
    with pytest.raises(ValueError, match="has one view of every item, a pair needs two; build a zoo with views=2"):
        UnlabelledPairs(zoo)


def test_a_zoo_without_pairs_says_so(tmp_path, tiny_zoo):
    zoo = Zoo(tiny_zoo.folder)
    zoo.records = {0: zoo.records[0]}
    with pytest.raises(ValueError, match="has 1 train networks, a pair needs two; build more"):
        LabelledPairs(zoo)
