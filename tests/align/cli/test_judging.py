"""``wsalign barrier`` and ``wsalign distance``."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import align


def test_barriers_are_those_of_the_package(run, home):
    import nets

    a, b = nets.Net().eval(), nets.Net().eval()
    for model, name in ((a, "a"), (b, "b")):
        model.load_state_dict(load_file(home / f"{name}.safetensors"))
    held = load_file(home / "data.safetensors")
    data = held["inputs"], held["targets"]
    _, out, _ = run("barrier a.pt b.pt --model nets:Net --data data.safetensors --points 5 --json --method identity")
    found = json.loads(out)["curves"]["not aligned"]
    assert found["loss"] == pytest.approx(align.barrier(a, b, data=data, points=5).loss.tolist())
    assert found["points"] == [0, 0.25, 0.5, 0.75, 1]
    assert found["loss_half_way"] == found["loss"][2]


def test_pages_show_what_was_found(run, home):
    words = "a.pt b.pt --model nets:Net --method weight_matching --report page.html"
    code, out, err = run(f"barrier {words} --data data.safetensors --points 5 --json")
    assert code == 0, err
    found, page = json.loads(out), (home / "page.html").read_text()
    assert found["report"] == "page.html"
    assert page.count("<polyline ") == 2
    assert f"<td>{found['curves']['weight_matching']['barrier']:.4g}</td>" in page
    code, out, err = run(f"match {words} -o aligned.pt")
    assert code == 0, err
    assert "report: page.html" in out
    assert "<td>0</td><td>8</td>" in (home / "page.html").read_text()


def test_methods_that_need_data_get_it(run):
    code, _, err = run(
        "barrier a.pt b.pt --model nets:Net --data data.safetensors --points 3 --method activation_matching"
    )
    assert code == 0, err


def test_numbers_as_targets(run, home):
    save_file({"inputs": torch.randn(8, 4), "targets": torch.randn(8, 3)}, home / "numbers.safetensors")
    code, out, err = run("barrier a.pt b.pt --model nets:Net --data numbers.safetensors --points 3 --method identity")
    assert code == 0, err
    assert "–" in out


def test_what_is_no_number_is_null_in_json(run, home):
    held = load_file(home / "data.safetensors")
    save_file({**held, "inputs": torch.full((64, 4), torch.inf)}, home / "wild.safetensors")
    _, out, _ = run("barrier a.pt b.pt --model nets:Net --data wild.safetensors --points 3 --method identity --json")
    assert "NaN" not in out
    assert json.loads(out)["curves"]["not aligned"]["loss"] == [None] * 3


def test_distances_are_those_of_the_package(run, home):
    _, out, _ = run("distance a.safetensors b.safetensors --json")
    with pytest.warns(UserWarning, match="assuming a plain chain"):
        expected = align.distance(home / "a.safetensors", home / "b.safetensors")
    assert json.loads(out)["distances"][0] == pytest.approx([0, expected])


def test_refused(run, home):
    save_file({"inputs": torch.randn(8, 4)}, home / "bare.safetensors")
    _, _, err = run("barrier a.pt b.pt --data data.safetensors")
    assert "barrier runs the networks, and tensors alone do not say how. Name the class of the network" in err
    _, _, err = run("barrier a.pt b.pt --model nets:Net --data bare.safetensors")
    assert "bare.safetensors has inputs only, and a loss needs targets, too; add an entry targets to it" in err
    _, _, err = run("barrier a.pt b.pt --model nets:Net --data data.safetensors --points 1")
    assert "a line needs its two ends: got points=1" in err
    _, _, err = run("barrier a.pt b.pt --model nets:Net --data data.safetensors --report none/page.html")
    assert "there is no folder none to write page.html into; make it first" in err
    _, _, err = run("distance a.pt b.pt --aligner . --method deep_align")
    assert "no aligner in .: expected config.json and model.safetensors, found neither" in err
    _, _, err = run(f"distance a.pt b.pt --aligner {Path(align.__file__).parent / 'pretrained'}")
    assert "'weight_matching' does not use aligner=, ['auto', 'deep_align'] do" in err
    _, _, err = run("distance a.pt b.pt -o none/map.png")
    assert "there is no folder none to write map.png into; make it first" in err
