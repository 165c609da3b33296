import pytest
import torch
from torch import nn

import align

PUBLIC = [
    "Alignment", "Barrier", "DeepAlign", "DeepAlignConfig", "Universe", "barrier", "distance", "match", "match_many",
    "merge", "pairwise_distance",
]  # fmt: skip


def test_public_names_are_pinned():
    assert sorted(align.__all__) == PUBLIC


def test_every_public_name_exists_and_is_documented():
    assert [name for name in align.__all__ if not getattr(align, name).__doc__] == []


@pytest.mark.filterwarnings("ignore:.*raise iterations")  # nothing is better than anything here
@pytest.mark.parametrize("method", ["weight_matching", "activation_matching", "sinkhorn", "ste"])
def test_methods_show_progress_on_a_terminal_and_nothing_elsewhere(method, monkeypatch, capsys):
    a, b = (nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)) for _ in range(2))
    data = torch.randn(32, 4), torch.randint(2, (32,))
    options = {"sinkhorn": {"iterations": 30}, "ste": {"iterations": 30}}.get(method, {})
    data = None if method == "weight_matching" else data
    run = lambda: align.match(a, b, method, data=data, seed=0, **options)  # noqa: E731
    run()
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    run()
    assert capsys.readouterr().err != ""
