"""Folders of Hugging Face as modules, with a stand-in for ``transformers``: that one takes seconds to import."""

import json
import sys
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from wsgraph import to_graph
from wsgraph.checkpoints import opened
from wsgraph.huggingface import model_of


class PreTrainedModel(nn.Module):
    """What all models of ``transformers`` are."""

    main_input_name = "input_ids"
    base_model_prefix = "base"
    dummy_inputs = {"input_ids": torch.tensor([[7, 6, 0], [1, 2, 3]])}  # noqa: RUF012


class TinyLM(PreTrainedModel):
    """Tokens to logits; the first and the last matrix are one."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(8, config.width)
        self.hidden = nn.Linear(config.width, config.width)
        self.head = nn.Linear(config.width, 8, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, input_ids):
        return self.head(torch.relu(self.hidden(self.embed(input_ids))))


class AutoConfig:
    asked: dict

    @classmethod
    def from_pretrained(cls, folder, **options):
        cls.asked = options
        with open(f"{folder}/config.json") as file:
            return SimpleNamespace(**json.load(file))


@pytest.fixture
def transformers(monkeypatch):
    module = SimpleNamespace(AutoConfig=AutoConfig, PreTrainedModel=PreTrainedModel, TinyLM=TinyLM, Other=dict)
    monkeypatch.setitem(sys.modules, "transformers", module)
    return module


@pytest.fixture
def folder(tmp_path):
    config = {"architectures": ["TinyLM"], "width": 4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = TinyLM(SimpleNamespace(**config))
    state = {k: v for k, v in model.state_dict().items() if k != "head.weight"}  # a tied one is written once
    save_file({**state, "more": torch.ones(1)}, tmp_path / "model.safetensors")
    return tmp_path


def test_a_folder_is_a_module(transformers, folder):
    model = opened(str(folder))
    assert isinstance(model, TinyLM)
    assert not model.training
    assert model.head.weight is model.embed.weight
    assert AutoConfig.asked == {"trust_remote_code": False, "local_files_only": True}
    assert [group.name for group in to_graph(folder).spec.free] != []


def test_without_transformers(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"transformers is needed and not installed: pip install 'wsgraph\[hf\]'"):
        opened(folder)


@pytest.mark.parametrize("name", ["Other", "Missing", None, 3])
def test_an_architecture_that_is_not_one_of_theirs(transformers, folder, name):
    (folder / "config.json").write_text(json.dumps({"architectures": [name]}))
    with pytest.raises(ValueError, match=rf"names the architecture {name!r}, expected a model of the installed trans"):
        model_of(folder)


def test_a_config_that_transformers_refuses(transformers, folder):
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"transformers cannot use .*config.json: Expecting property name"):
        model_of(folder)


def test_weights_of_another_model(transformers, folder):
    save_file({"embed.weight": torch.ones(8, 4), "fc.weight": torch.ones(2)}, folder / "model.safetensors")
    message = r"has 2 entries that the checkpoint lacks, such as 'hidden.weight'; .* does not know: \['fc.weight'\]"
    with pytest.raises(ValueError, match=message):
        opened(folder)


def test_weights_of_another_size(transformers, folder):
    state = {"embed.weight": torch.ones(8, 5), "hidden.weight": torch.ones(5, 5), "hidden.bias": torch.ones(5)}
    save_file(state, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"'embed.weight' has shape \(8, 5\) in the checkpoint and \(8, 4\) in"):
        opened(folder)
