import pytest
import torch

from align import demo


@pytest.fixture
def quick(monkeypatch):
    """A demo of seconds."""
    train = demo.train
    few = {"identity": {}, "weight_matching": {}, "weight_matching+sinkhorn": {"iterations": 2}}
    monkeypatch.setattr(demo, "METHODS", few)
    monkeypatch.setattr(demo, "train", lambda model, data, seed: train(model, data, seed, epochs=2))


def test_the_benchmark_keeps_the_table(tmp_path, monkeypatch, quick):
    from align.benchmark import sheet
    from align.benchmark.__main__ import main

    monkeypatch.setattr(sheet, "RESULTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["benchmark", "demo", "--seed", "3"])
    main()
    table = (tmp_path / "demo" / "table.md").read_text()
    assert table.startswith("`python -m align.benchmark demo --seed 3`")
    assert "| weight_matching+sinkhorn |" in table


def test_demo_draws_and_tells(tmp_path, monkeypatch, capsys, quick):
    path = tmp_path / "new" / "demo.png"
    monkeypatch.setattr("sys.argv", ["demo", "--output", str(path), "--seed", "3"])
    demo.main()
    assert path.stat().st_size > 10_000
    out = capsys.readouterr().out
    for method in ("not aligned", "weight_matching", "weight_matching+sinkhorn"):
        assert method in out
    assert "loss barrier" in out


def test_every_method_of_the_demo_exists():
    from align.methods import METHODS

    assert {name for method in demo.METHODS for name in method.split("+")} <= set(METHODS)


def test_digits_are_images_to_learn_from_and_others():
    (x, y), (test_x, test_y) = demo.digits()
    assert x.shape == (1260, 1, 8, 8)
    assert len(test_x) == len(test_y) == 397
    assert float(x.min()) == -1
    assert float(x.max()) == 1
    assert y.dtype == torch.int64


def test_networks_depend_on_their_seed_only():
    torch.manual_seed(0)
    one = demo.network(1)
    state = torch.random.get_rng_state()
    two = demo.network(1)
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.equal(one[1].weight, two[1].weight)
    assert not torch.equal(one[1].weight, demo.network(2)[1].weight)
