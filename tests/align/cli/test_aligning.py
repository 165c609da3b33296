"""``wsalign match`` and ``wsalign merge``: what is written, and what is refused."""

import json
import os

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import align
from wsgraph.checkpoints import read_checkpoint


def outputs(state, home):
    import nets

    model = nets.Net().eval()
    model.load_state_dict(state)
    with torch.no_grad():
        return model(load_file(home / "data.safetensors")["inputs"])


@pytest.mark.parametrize("words", ["a.safetensors b.safetensors", "a.pt b.pt --model nets:Net"])
def test_the_function_stays_and_the_distance_shrinks(words, run, home):
    code, out, err = run(f"match {words} -o aligned.safetensors --method weight_matching --json")
    assert code == 0, err
    found = json.loads(out)
    assert found["distance"]["after"] < found["distance"]["before"]
    before, after = load_file(home / "b.safetensors"), load_file(home / "aligned.safetensors")
    assert not torch.equal(before["0.weight"], after["0.weight"])
    torch.testing.assert_close(outputs(after, home), outputs(before, home))


def test_all_else_in_the_file_stays(run, home):
    for name in "ab":
        state = load_file(home / f"{name}.safetensors")
        more = {"z.ema": torch.randn(3).half(), "step": torch.tensor(4)}
        save_file(
            {**{k: v.double() if k == "5.bias" else v.half() for k, v in state.items()}, **more},
            home / f"{name}x.safetensors",
            {"own": "1"},
        )
    code, _, err = run(
        "match ax.safetensors bx.safetensors -o cx.safetensors --model nets:Net --method weight_matching"
    )
    assert code == 0, err
    source, made = (read_checkpoint(home / f"{name}x.safetensors") for name in "bc")
    assert list(made.tensors) == list(source.tensors)
    assert [t.dtype for t in made.tensors.values()] == [t.dtype for t in source.tensors.values()]
    assert torch.equal(made.tensors["z.ema"], source.tensors["z.ema"])
    assert made.meta == {"own": "1"}


def test_names_under_a_wrapper_are_kept(run, home):
    for name in "ab":
        state = torch.load(home / f"{name}.pt", weights_only=True)["model"]
        torch.save({f"_orig_mod.module.{k}": v for k, v in state.items()}, home / f"{name}w.pt")
    code, _, err = run("match aw.pt bw.pt -o cw.pt --model nets:Net --method weight_matching")
    assert code == 0, err
    run("match a.pt b.pt -o cp.pt --model nets:Net --method weight_matching")
    wrapped, plain = (torch.load(home / name, weights_only=True) for name in ("cw.pt", "cp.pt"))
    assert list(wrapped) == [f"_orig_mod.module.{k}" for k in plain]
    torch.testing.assert_close(list(wrapped.values()), list(plain.values()))


def test_large_files_stay_where_they_are(run, home, monkeypatch):
    run("match a.pt b.pt -o small.pt --model nets:Net --method weight_matching")
    monkeypatch.setattr("align.cli.networks.LARGE", 10)
    monkeypatch.setattr("wsgraph.checkpoints.in_memory", lambda _: pytest.fail("a copy of all is made"))
    for name, model in (("plain", "nets:Net"), ("looks", "nets:Looks")):
        code, _, err = run(
            f"match a.safetensors b.safetensors -o {name}.safetensors --model {model} --method weight_matching"
        )
        assert code == 0, err
        expected = torch.load(home / "small.pt", weights_only=True)
        torch.testing.assert_close(load_file(home / f"{name}.safetensors"), expected)
    code, _, err = run("match a.pt b.safetensors -o big.safetensors --model nets:Tokens --example-input 2,3:tokens")
    assert "a.pt: nets:Tokens has 3 entries that the checkpoint lacks, such as 'embed.weight'" in err


def test_merge_is_that_of_the_package(run, home):
    code, _, err = run("merge a.safetensors b.safetensors -o m.safetensors --weights 1,3 --method weight_matching")
    assert code == 0, err
    a, b = (load_file(home / f"{name}.safetensors") for name in "ab")
    with pytest.warns(UserWarning, match="assuming a plain chain"):
        alignment = align.match(a, b, "weight_matching")
    torch.testing.assert_close(
        load_file(home / "m.safetensors"), align.merge(a, b, alignment=alignment, weights=(1, 3))
    )
    with safe_open(home / "m.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_identity_averages_as_they_are(run, home):
    run("merge a.safetensors b.safetensors c.safetensors -o m.safetensors --method identity")
    mean = sum(load_file(home / f"{name}.safetensors")["3.weight"] for name in "abc") / 3
    torch.testing.assert_close(load_file(home / "m.safetensors")["3.weight"], mean)


def test_a_folder_in_and_a_folder_out(run, home):
    for name in "ab":
        (home / name).mkdir()
        save_file(load_file(home / f"{name}.safetensors"), home / name / "model.safetensors", {"format": "pt"})
        (home / name / "tokenizer.json").write_text(name)
    code, _, err = run("match a b -o hub --model nets:Net --method weight_matching")
    assert code == 0, err
    assert sorted(os.listdir(home / "hub")) == ["model.safetensors", "tokenizer.json"]
    assert (home / "hub" / "tokenizer.json").read_text() == "b"
    assert "hub exists already" in run("match a b -o hub --model nets:Net --method weight_matching")[2]


REFUSED = {
    "match a.pt b.pt -o c.txt": "c.txt is no name for a network: expected an ending of .safetensors",
    "match a.pt b.pt -o none/c.pt": "there is no folder none to write c.pt into",
    "match a.pt b.pt -o c.pt --method magic": "no method 'magic'; choose among ['auto'",
    "match a.pt b.pt -o c.pt --method weight_matching --data data.safetensors": "does not use data=",
    "match a.pt b.pt -o c.pt --data cats": "no data 'cats': choose one of digits, mnist",
    "match a.pt b.pt -o c.pt --data a.safetensors": "expected the entries inputs and targets (or inputs alone)",
    "match a.pt data.safetensors -o c.pt": "state dict does not fit the Spec: missing keys",
    "merge a.pt b.pt -o c.pt --repair repair": "--repair repair measures activations: pass --data, digits",
    "merge a.pt b.pt -o c.pt --repair repair --data noise": "--repair repair measures activations: pass --data, digits",
    "merge a.pt b.pt -o c.pt --repair repair --data data.safetensors": (
        "--repair repair runs the networks, and tensors alone do not say how. Name the class of the network: --model"
    ),
    "merge a.pt b.pt -o c.pt --weights 1,2,3": "2 models need 2 weights with a sum other than 0",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused_writes_nothing(words, run, home):
    code, out, err = run(words)
    assert (code, out) == (1, "")
    assert REFUSED[words] in err
    assert not (home / "c.txt").exists()
