"""Experiments write tables beside the paper's numbers, keep what is measured, and refuse leaks."""

import json
import pickle

import pytest
import torch

from align.benchmark.paper import experiments
from align.benchmark.paper.contest import entries, table
from align.benchmark.paper.disjoint import SIDES, Both, across
from align.benchmark.paper.measuring import Entry, measure, of_pairs, ratio
from align.benchmark.paper.notebook import Notebook
from align.benchmark.paper.settings import Family, Settings, read
from align.benchmark.paper.subjects import Subjects, fewer, networks, pairs_of, require_held_out
from align.benchmark.tables import both
from align.judging.compare import Method
from wsgraph import Permutation
from wsgraph.alone import alone

WORDS = ("scale=smoke",)


@pytest.fixture(scope="module")
def zoo():
    return networks(read("mlp", WORDS).families["MNIST MLP"])[0]


def test_pairs_are_disjoint(zoo):
    pairs = pairs_of([zoo], 99)
    numbers = [n for _, *pair in pairs for n in pair]
    assert len(set(numbers)) == len(numbers) == len(zoo.members("test")) // 2 * 2


def test_fewer_networks_to_learn_from_and_the_same_to_judge(zoo):
    small = fewer(zoo, 4)
    assert small.members("train") == zoo.members("train")[:4] == pickle.loads(pickle.dumps(small)).members("train")
    assert small.members("test") == zoo.members("test")
    with pytest.raises(ValueError, match=r"1 networks to learn from, expected 2 to 16"):
        fewer(zoo, 1)


def test_a_test_network_that_was_learned_from_is_found(zoo, monkeypatch):
    require_held_out(zoo)
    leaked, learned, tensors = zoo.members("test")[0], zoo.members("train")[0], zoo.tensors
    monkeypatch.setattr(zoo, "tensors", lambda n: tensors(learned if n == leaked else n))
    with pytest.raises(ValueError, match=rf"network {leaked} of .* equals network {learned}"):
        require_held_out(zoo)


def test_planted_permutations_have_no_barrier(zoo, monkeypatch):
    i, j = zoo.members("test")[:2]
    planted, tensors = Permutation.random(zoo.spec), zoo.tensors
    monkeypatch.setattr(zoo, "tensors", lambda n: planted.apply(tensors(i)) if n == j else tensors(n))
    settings = read("mlp", WORDS)
    for name in ("weight_matching", "deep_align", "covariance_matching"):
        found = of_pairs(measure(Entry(Method(name, name, {})), [(zoo, i, j)], settings))
        assert float(found.max()) == pytest.approx(0, abs=1e-5), name
    assert float(of_pairs(measure(Entry(Method("", "identity", {})), [(zoo, i, j)], settings)).max()) > 0.01


@pytest.mark.filterwarnings("ignore:.*Sinkhorn iterations found nothing better")
def test_a_contest_is_kept_and_stands_beside_the_paper(tmp_path, capsys):
    words = [*WORDS, "only=[MNIST]"]
    experiments.run("mlp", words, tmp_path)
    made = json.loads((tmp_path / "mlp" / "results.json").read_text())
    assert made["made"]["commit"]
    table = (tmp_path / "mlp" / "table.md").read_text()
    assert "| deep align | " in table
    assert "| 0.005 | 0 | 0.21 |" in table  # the paper's
    assert (tmp_path / "mlp" / "table.tex").read_text().count(r"\\") == table.count("\n| ") - 1
    assert (tmp_path / "mlp" / "lines.png").stat().st_size > 0
    losses = [entry["loss"] for entry in made["measured"].values()]
    assert all(torch.tensor(loss).isfinite().all() for loss in losses)
    before = (tmp_path / "mlp" / "results.json").stat().st_mtime_ns
    experiments.run("mlp", words, tmp_path)  # nothing is left to measure
    assert (tmp_path / "mlp" / "results.json").stat().st_mtime_ns == before


def test_without_pairs_for_slow_methods_these_are_left_out(zoo):
    labels = [entry.label for entry in entries(Subjects([zoo], []), read("mlp", [*WORDS, "slow=0"]))]
    assert "activation matching" in labels
    assert not {"straight-through", "Sinkhorn", "deep align + Sinkhorn", "auto"} & set(labels)


def test_other_settings_need_another_folder(tmp_path):
    families = {"some": Family(("+arch=mlp",))}
    Notebook(tmp_path, Settings("contest", "a", "smoke", families)).keep("x", list)
    Notebook(tmp_path, Settings("contest", "b", "smoke", families, differs="in words only"))
    with pytest.raises(ValueError, match=r"other settings: slow was 4 and is 5. Choose another folder with --output"):
        Notebook(tmp_path, Settings("contest", "a", "smoke", families, slow=5))


def test_a_table_says_what_commits_measured_it(tmp_path):
    settings = Settings("contest", "a", "smoke", {})
    first = Notebook(tmp_path, settings)
    first.made = {**first.made, "commit": "0000000"}
    first.keep("x", list)
    second = Notebook(tmp_path, settings)
    second.made = {**second.made, "commit": "1111111"}
    second.close({"md": "", "tex": ""})
    assert ", commit 0000000, " in (tmp_path / "table.md").read_text()  # the second has measured nothing
    second.keep("y", list)
    second.close({"md": "", "tex": ""})
    assert ", commit 0000000 and 1111111, " in (tmp_path / "table.md").read_text()


def test_two_processes_do_not_write_to_one_folder(tmp_path):
    with alone(tmp_path / "mlp", AssertionError()), pytest.raises(ValueError, match="another process writes to"):
        experiments.run("mlp", WORDS, tmp_path)


def _lines(*tops):
    return {"points": [0.0, 0.5, 1.0], "loss": [[[0.0, top, 0.0] for top in tops]]}


def test_ratios_are_of_the_same_pairs():
    assert ratio(_lines(1.0, 2.0), _lines(2.0, 100.0), 1) == pytest.approx(0.5)
    assert ratio(_lines(1.0), _lines(2.0, 100.0), 2) is None
    assert ratio(_lines(1.0), _lines(0.0), 1) is None


def test_a_column_of_ratios_compares_the_same_pairs():
    found = {"activation matching": _lines(1.0, 3.0), "deep align": _lines(1.0, 1.0), "Sinkhorn": _lines(0.5)}
    rows = table({"some": found}, Settings("contest", "a", "smoke", {"some": Family(())}))["md"].splitlines()
    assert "× activation matching | × on one pair" in rows[0]
    assert [row.split(" | ")[3:5] for row in rows[2:5]] == [["1.00", "1.00"], ["0.50", "1.00"], ["–", "0.50"]]
    assert "pairs | 2 or 1" in rows[5]


def test_networks_of_different_classes_are_paired_across_and_share_no_seed():
    family = read("disjoint", WORDS).families["CIFAR-10 CNN"]
    first, second = (networks(family, side)[0] for side in SIDES)
    zoo = Both(first, second)
    assert len(zoo) == len(first) + len(second)
    for _, i, j in across(zoo, 99):
        assert zoo.records[i].seed != zoo.records[j].seed
        assert zoo.records[i].part == zoo.records[j].part == "test"
        for number, side in ((i, first), (j, second)):
            torch.testing.assert_close(zoo.tensors(number), side.tensors(number // 2))
    assert zoo.config.side == pickle.loads(pickle.dumps(zoo)).config.side == "all"


def test_tables_are_whole():
    found = both(["a", "b"], [["x_1", "2 ± 1"]], [["pairs", "3"]])
    assert found["md"] == "| a | b |\n| --- | ---: |\n| x_1 | 2 ± 1 |\n| pairs | 3 |\n"
    assert r"x\_1 & 2 $\pm$ 1 \\" in found["tex"]
    with pytest.raises(ValueError, match="a row of 1 cells in a table of 2 columns"):
        both(["a", "b"], [["x"]])
