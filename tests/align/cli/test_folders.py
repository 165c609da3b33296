"""Folders of Hugging Face, with its own library: what is merged on the command line loads there."""

import pytest
import torch

import align
from align.cli.command import main

SIZES = {
    "n_embd": 8,
    "n_layer": 1,
    "n_head": 2,
    "vocab_size": 20,
    "n_positions": 8,
    "bos_token_id": 0,
    "eos_token_id": 0,
}


def test_two_folders_become_one_that_loads(tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate("ab"):
        torch.manual_seed(seed)
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZES))
        model.save_pretrained(name, max_shard_size=2_000)
    assert main(["merge", "a", "b", "-o", "merged", "--method", "weight_matching"]) == 0
    assert len(list((tmp_path / "merged").glob("*.safetensors"))) > 1
    found = transformers.GPT2LMHeadModel.from_pretrained("merged").eval()
    alignment = align.match("a", "b", "weight_matching", example_input=found.dummy_inputs)
    expected = align.merge("a", "b", alignment=alignment)
    tokens = torch.randint(20, (3, 8))
    with torch.no_grad():
        torch.testing.assert_close(found(tokens).logits, expected(tokens).logits)
