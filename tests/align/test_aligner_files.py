"""An aligner comes back from its files as it was, or not at all."""

import json
import logging
import pickle

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file, save_file

from align import DeepAlign
from align.deep_align import BUNDLED, CONFIG, WEIGHTS
from align.learning.stages import first_aligner
from wsgraph.files import read_tensors

SIZES = {"encoder": {"hidden": 4, "output": 4, "messages": 4, "sweeps": 1}}


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    DeepAlign(SIZES).save_pretrained(tmp_path)
    return tmp_path


def without_digest(folder, change=lambda tensors: tensors):
    """The weights as a version without digests, or somebody else, writes them."""
    save_file(change(load_file(folder / WEIGHTS)), folder / WEIGHTS)


def renamed(tensors):
    return {f"module.{name}": t for name, t in tensors.items()}


def without_s(tensors):
    return {name: t for name, t in tensors.items() if name != "s"}


def reshaped(tensors):
    return {**tensors, "s": tensors["s"][None]}


def whole_numbers(tensors):
    return {**tensors, "s": tensors["s"].long()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (renamed, r"it lacks s, .* and \d+ more; it has the unknown module\.\S+, .* and \d+ more\. Both files must be"),
        (without_s, r"it lacks s\. Both files must be as save_pretrained wrote them"),
        (reshaped, "it has another shape or type of s"),
        (whole_numbers, "it has another shape or type of s"),
    ],
)
def test_other_parameters_are_refused(folder, change, message):
    without_digest(folder, change)
    for load in (DeepAlign.from_pretrained, lambda f: first_aligner(OmegaConf.create({"start": str(f)}))):
        with pytest.raises(ValueError, match=rf"model.safetensors does not hold the aligner .*{message}"):
            load(folder)


def test_every_flipped_bit_of_the_weights_is_found(folder):
    content = (folder / WEIGHTS).read_bytes()
    for place in range(0, len(content), 97):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        (folder / WEIGHTS).write_bytes(flipped)
        with pytest.raises(ValueError, match=r"damaged|not a readable safetensors file|does not hold the aligner"):
            DeepAlign.from_pretrained(folder)


def test_a_flipped_weight_is_called_damage(folder):
    content = bytearray((folder / WEIGHTS).read_bytes())
    content[-2] ^= 1
    (folder / WEIGHTS).write_bytes(content)
    with pytest.raises(ValueError, match=r"model.safetensors is damaged: the SHA-256 .*Get or save it again"):
        DeepAlign.from_pretrained(folder)


def test_weights_without_a_digest_load_with_a_line_in_the_log(folder, caplog):
    without_digest(folder)
    with caplog.at_level(logging.INFO):
        DeepAlign.from_pretrained(folder)
    assert "model.safetensors has no digest: whether it is damaged cannot be told" in caplog.text


def test_the_bundled_aligner_has_a_digest(caplog):
    with caplog.at_level(logging.INFO, "wsgraph.files"):
        read_tensors(BUNDLED / WEIGHTS)
    assert caplog.text == ""


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_both_files_are_needed(folder, name):
    (folder / name).unlink()
    with pytest.raises(
        FileNotFoundError, match=r"no aligner in .*expected config.json and model.safetensors, found \w+"
    ):
        DeepAlign.from_pretrained(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "it is not JSON"),
        ("[" * 200_000, "it is nested too deep|it is not JSON"),
        ("[]", "DeepAlignConfig is \\[\\], expected a mapping with encoder, scale"),
        ('{"encoder": 3}', "encoder is 3, expected a mapping with hidden, "),
        ('{"encoder": {"hiden": 3}}', "encoder.hiden is not known; did you mean hidden?"),
        ('{"encoder": {"hidden": "4"}}', "encoder.hidden is '4', expected a whole number"),
        ('{"scale": -1}', "scale is -1, expected a number above 0"),
    ],
)
def test_a_config_that_is_none_is_refused(folder, text, message):
    (folder / CONFIG).write_text(text)
    with pytest.raises(ValueError, match=f"config.json is not the config of an aligner: .*{message}"):
        DeepAlign.from_pretrained(folder)


def test_a_config_that_was_changed_is_noticed(folder):
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**config, "encoder": {**config["encoder"], "activation": "tanh"}}))
    with pytest.raises(ValueError, match=r"config.json is not the config that model.safetensors .*Get both again"):
        DeepAlign.from_pretrained(folder)


@pytest.mark.parametrize("dump", [lambda state, path: path.write_bytes(pickle.dumps(state)), torch.save])
def test_a_pickle_is_not_opened_whatever_its_name(folder, dump):
    dump({"s": torch.ones(())}, folder / WEIGHTS)
    with pytest.raises(ValueError, match=r"It is a pickle \(torch.save\), whatever its name says.*weights_only=True"):
        DeepAlign.from_pretrained(folder)


def test_weights_from_the_hub_are_the_same_two_files(folder, monkeypatch):
    asked = {}

    def snapshot(name, **options):
        asked.update(options, name=name)
        return str(folder)

    monkeypatch.setattr("align.deep_align.snapshot_download", snapshot)
    DeepAlign.from_pretrained("somebody/aligner", revision="v1")
    assert asked == {"name": "somebody/aligner", "revision": "v1", "allow_patterns": [CONFIG, WEIGHTS]}
