"""``wsalign inspect`` and ``wsalign draw``."""

import json
import sys

import pytest
import torch
from safetensors.torch import save_file


def test_facts_and_groups(run):
    _, out, _ = run("inspect a.safetensors --model nets:Net --json")
    found = json.loads(out)
    assert (found["entries"], found["weights"], found["types"]) == (11, 172, {"float32": 10, "int64": 1})
    assert found["metadata"] == {"format": "pt"}
    assert [(g["name"], g["pinned"]) for g in found["groups"]][:2] == [("input", "network input"), ("0", None)]


def test_a_chain_is_noted_once(run):
    _, out, err = run("inspect a.safetensors")
    assert "2 of 4 groups may be permuted" in out
    assert err == (
        "note: a.safetensors is taken for a plain chain of layers; where layers branch, add up or are transposed "
        "convolutions, name the class of the network: --model package.module:Class\n"
    )


def test_what_is_no_chain_is_inspected_all_the_same(run, home):
    save_file({"x.weight": torch.ones(3, 2), "y.weight": torch.ones(5, 7)}, home / "odd.safetensors")
    code, out, _ = run("inspect odd.safetensors")
    assert code == 0
    assert "odd.safetensors: 41 numbers in 2 entries (2 of float32)" in out
    assert "Name the class of the network: --model package.module:Class" in out.replace("\n", " ")
    assert json.loads(run("inspect odd.safetensors --json")[1])["groups"] is None
    code, _, err = run("draw odd.safetensors -o odd.png")
    assert code == 1
    assert "cannot read the architecture off the state dict" in err


def test_a_folder_is_inspected_without_transformers(run, home, monkeypatch):
    (home / "hub").mkdir()
    save_file({"w": torch.ones(2, 2)}, home / "hub" / "model.safetensors")
    monkeypatch.setitem(sys.modules, "transformers", None)
    _, out, _ = run("inspect hub --json")
    assert json.loads(out)["weights"] == 4
    assert "transformers is needed and not installed" in json.loads(out)["problem"]


def test_entries_that_the_network_does_not_know(run, home):
    state = torch.load(home / "a.pt", weights_only=True)["model"]
    torch.save({f"module.{k}": v for k, v in {**state, "ema": torch.ones(2)}.items()}, home / "wrapped.pt")
    _, out, _ = run("inspect wrapped.pt --model nets:Net")
    assert "kept as they are, for the network does not know them: module.ema" in out


def test_tokens(run, home):
    import nets

    torch.save(nets.Tokens().state_dict(), home / "tokens.pt")
    code, out, err = run("inspect tokens.pt --model nets:Tokens --example-input 2,3:tokens")
    assert code == 0, err
    assert "1 of" in out


MODELS = {
    "nets:Missing": "'nets:Missing': its module has no such name, expected a class, or a function that makes a network",
    "nets:Sized": "'nets:Sized' cannot be called without arguments",
    "nets:number": "'nets:number' makes a int, expected an nn.Module",
    "nowhere:Net": "'nowhere:Net': cannot import 'nowhere' (No module named 'nowhere'); is it installed, or in this",
    "Net": "no architecture 'Net'; choose one of mlp, cnn",
    "nets:ready": "a.pt: nets:ready has 2 entries that the checkpoint lacks, such as 'weight'",
    "mlp": "a.pt: mlp has",
    "nets:Tokens": "cannot tell what nets:Tokens is called with; pass its shape, batch first: --example-input 2,3",
}


@pytest.mark.parametrize("name", MODELS)
def test_classes_that_cannot_be_used(name, run):
    code, out, err = run(f"inspect a.pt --model {name}")
    assert (code, out) == (1, "")
    assert MODELS[name] in err


def test_no_folder_for_a_picture(run):
    assert run("draw a.pt -o none/a.png")[2] == (
        "wsalign draw: there is no folder none to write a.png into; make it first\n"
    )
