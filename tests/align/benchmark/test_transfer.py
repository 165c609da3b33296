"""Cells of transfer differ in one thing, and what is left out is left out."""

import pytest

from align.benchmark import left_out, transfer
from align.benchmark.left_out import MISSING, kind_of
from align.zoo import ZooConfig
from align.zoo.families import CYCLE, family


def test_cells_of_a_section_differ_in_one_thing():
    for section, cells in transfer.CELLS.items():
        assert len({config.folder_name for config in cells.values()}) == 4
        same = {(c.make, c.split, c.seed, c.together) for c in cells.values()}
        assert same == {("dense", (0, 0, 1), transfer.SEED, transfer.NETWORKS)}
        if section.startswith("width"):
            first, *wider = (config.args["hidden"][0] for config in cells.values())
            assert wider == [2 * first, 4 * first, 8 * first]


def test_each_family_is_left_out_once():
    configs = [family(k) for k in range(len(CYCLE))]
    kinds = [name for name in MISSING if name != "other data"]
    assert len(kinds) == 6
    assert all(sum(MISSING[name](config) for name in kinds) == 1 for config in configs)
    assert {kind_of(config) for config in configs} == set(CYCLE)
    assert {config.data for config in configs if not MISSING["other data"](config)} <= set(left_out.LEARNED)


def test_aligners_never_see_what_they_are_judged_on(tiny_zoo, tmp_path, monkeypatch):
    learned, judged = [], []

    class Named:
        """A zoo under another name."""

        def __init__(self, config):
            self.config, self.folder = config, tiny_zoo.folder

    class Watched:
        """A board that writes down what is judged."""

        def __init__(self, folder, title): ...

        def judge(self, section, name, zoo, aligner):
            judged.append((section, name.partition(" on ")[0], len(zoo)))

        def show(self): ...

    def train(aligner, zoos, config, folder, resume):
        learned.append((zoos, config, folder))

    monkeypatch.setattr(left_out, "build_all", lambda configs, count: [Named(config) for config in configs])
    monkeypatch.setattr(left_out, "Board", Watched)
    monkeypatch.setattr(left_out, "train_aligner", train)
    left_out.leave_one_out(["recurrent"], tmp_path, steps=7, families=20)
    [(zoos, config, folder)] = learned
    missing = [name for name in (family(k).name for k in range(20)) if name.endswith("-recurrent")]
    assert len(zoos) == 20 - len(missing)
    assert "recurrent" not in {kind_of(zoo.config) for zoo in zoos}
    assert (config.steps, config.validate, config.patience) == (7, 0, 0)
    assert folder == tmp_path / "7-steps" / "runs" / "recurrent"
    assert judged == [("recurrent", name, left_out.PAIRED) for name in missing[: left_out.JUDGED]]


def test_unknown_words_are_named(tmp_path):
    with pytest.raises(SystemExit, match="nothing that changes contains speed; choose among width, digits, width"):
        transfer.transfer(["speed"], tmp_path)
    with pytest.raises(SystemExit, match="nothing to leave out contains speed; choose among dense, convolutional"):
        left_out.leave_one_out(["speed"], tmp_path, 1)


def test_kinds_are_read_off_names():
    assert kind_of(ZooConfig("family20-dense_residual", "mlp", {})) == "dense_residual"
