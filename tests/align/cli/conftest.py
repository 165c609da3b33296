"""A folder with networks, as a user of ``wsalign`` has one."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from align.cli.command import main

NETS = """
import torch
from torch import nn


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))


class Looks(Net):
    def __init__(self):
        super().__init__()
        assert self[0].weight.norm().item() > 0


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 6), nn.Linear(6, 2)

    def forward(self, x):
        return self.head(torch.relu(self.embed(x)))


class Sized(nn.Linear):
    pass


def number():
    return 3


ready = nn.Linear(2, 2)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """``nets.py``, networks ``a``, ``b`` and ``c`` as .safetensors and .pt, and data to run them on."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "nets.py").write_text(NETS)
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    patch.setattr(sys, "path", [*sys.path, str(folder)])
    import nets

    for seed, name in enumerate("abc"):
        torch.manual_seed(seed)
        state = nets.Net().state_dict()
        save_file(state, f"{name}.safetensors", {"format": "pt"})
        torch.save({"model": state, "epoch": 3}, f"{name}.pt")
    torch.manual_seed(0)
    save_file({"inputs": torch.randn(64, 4), "targets": torch.randint(3, (64,))}, "data.safetensors")
    yield folder
    patch.undo()
    sys.modules.pop("nets")


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run ``wsalign`` with some words in that folder: exit code, stdout, stderr."""

    def call(words: str) -> tuple[int, str, str]:
        code = main(words.split())
        return code, *capsys.readouterr()

    return call
