import pytest
import torch

from align import DeepAlign, DeepAlignConfig
from align.judging.compare import compare, results_table, summary, with_error
from align.zoo import Zoo
from wsgraph import EncoderConfig

SMALL = DeepAlignConfig(encoder=EncoderConfig(hidden=16, output=24, messages=16, sweeps=2))
QUICK = {"pairs": 2, "points": 3, "samples": 64, "images": 64, "sinkhorn": 2}


def aligner():
    torch.manual_seed(0)
    return DeepAlign(SMALL).eval()


@pytest.mark.filterwarnings("ignore:2 Sinkhorn iterations found nothing better")
def test_every_method_is_judged_on_the_same_pairs(tiny_zoo):
    results = compare(aligner(), tiny_zoo, **QUICK, whole=True, scratch=2)
    assert list(results) == [
        *("not aligned", "weight matching", "covariance matching", "activation matching"),
        "activation matching, all samples",
        *("activation matching on noise", "deep align", "deep align + 2 sinkhorn", "sinkhorn 2"),
    ]
    for result in results.values():
        assert result.loss.shape == (2, 3)
        torch.testing.assert_close(result.loss[:, [0, 2]], results["not aligned"].loss[:, [0, 2]], atol=1e-3, rtol=1e-3)
    assert float(results["weight matching"]) < float(results["not aligned"])


def test_networks_of_signals_are_compared_too(wave_zoo):
    results = compare(aligner(), wave_zoo, **QUICK)
    rows = summary(results)
    assert all(row["accuracy"] is None and row["pairs"] == 2 for row in rows.values())
    assert "deep align + 2 sinkhorn" in rows


def test_the_summary_is_what_the_table_shows(tiny_zoo):
    results = compare(aligner(), tiny_zoo, **{**QUICK, "sinkhorn": 0})
    rows = summary(results)
    naive = results["not aligned"].barrier
    assert rows["not aligned"]["barrier"] == pytest.approx(float(naive.mean()))
    assert rows["not aligned"]["error"] == pytest.approx(float(naive.std()) / 2**0.5)
    assert rows["not aligned"]["accuracy"] == pytest.approx(float(results["not aligned"].accuracy[:, 1].mean()))
    table = results_table(tiny_zoo, results)
    assert table.row_count == len(rows)
    assert table.title == "tiny on digits: 2 pairs of held-out networks"


@pytest.mark.parametrize("change", [{"pairs": 0}, {"points": 1}, {"sinkhorn": -1}])
def test_numbers_that_judge_nothing_are_refused(tiny_zoo, change):
    with pytest.raises(ValueError, match=r"got pairs=\d, .*: expected at least 1 of the first three, 2 points and 0"):
        compare(aligner(), tiny_zoo, **{**QUICK, **change})


def test_a_zoo_without_test_networks_says_so(tiny_zoo):
    zoo = Zoo(tiny_zoo.folder)
    zoo.records = {n: r for n, r in zoo.records.items() if r.part != "test"}
    with pytest.raises(ValueError, match=r"has no two test networks; build more \(zoo.count=\)"):
        compare(aligner(), zoo, **QUICK)


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (1.27512, 0.00934, "1.2751 ± 0.0093"),
        (0.606, 0.0996, "0.61 ± 0.10"),
        (0.5, 0.25, "0.50 ± 0.25"),
        (17.6, 3.21, "17.6 ± 3.2"),
        (12345.6, 321.0, "12350 ± 320"),
        (0.123456, 0.0, "0.1235"),
        (0.157841489, 1.1e-8, "0.157841 ± 1e-08"),
        (float("nan"), float("nan"), "nan"),
    ],
)
def test_numbers_end_where_their_error_does(value, error, expected):
    assert with_error(value, error) == expected
