"""What the version before wrote can be read, or is refused by name; never is it misread.

``stored/`` was written by commit 1e33279: two zoos of twelve networks, and of a run folder what is read again. The run:
``python -m align.train +arch=mlp arch.args.hidden=[4,4] arch.together=12 zoo.count=12 data.epochs=1 data.batch=256
optim.steps=2 encoder.hidden=4 encoder.output=4 encoder.messages=4 encoder.sweeps=1 ...``. Names and digests below are
that version's, too. Neither are to be written anew: where a change breaks them, people's zoos are trained again.
"""

import hashlib
import shutil
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from align import DeepAlign
from align.configuration import config_folder
from align.learning.settings import TrainConfig
from align.learning.stages import first_aligner
from align.learning.trainer import train_aligner
from align.zoo import Zoo, build
from align.zoo.building import zoo_folder
from align.zoo.composed import zoo_configs

STORED = Path(__file__).parent / "stored"
DIGESTS = {"mlp-digits-98811a01": "0cb4bdb9c6544835", "waves-0960ea4b": "7eb757a42ffeb24e"}
NAMES = {
    "+arch=mlp": ["mlp-digits-6fc1cefe"],
    "+arch=mlp data=fashion_mnist": ["mlp-fashion_mnist-f5eb7bd0"],
    "+arch=mlp preset=paper data=mnist zoo.seed=3": ["mlp-mnist-4eaef95c"],
    "+arch=mlp_diverse": ["mlp3-digits-679981f8", "mlp4-digits-f804d25e", "mlp5-digits-fd439102"],
    "+arch=cnn data=cifar10": ["cnn-cifar10-7d024a5d"],
    "+arch=vgg11": ["vgg11-digits-3d2e7ee1"],
    "+arch=resnet20 data=stl10": ["resnet20-stl10-b5092ed3"],
    "+arch=inr_sine": ["inr_sine-215388b1"],
    "+arch=inr_sine preset=paper": ["inr_sine-a671fef9"],
    "+arch=inr_image data=mnist": ["inr_image-mnist-ca72a941"],
}


def digest(zoo: Zoo) -> str:
    """Of the bits of all tensors."""
    found = hashlib.sha256()
    for number in zoo.records:
        for name, tensor in sorted(zoo.tensors(number).items()):
            found.update(name.encode())
            found.update(tensor.numpy().tobytes())
    return found.hexdigest()[:16]


@pytest.mark.parametrize("name", DIGESTS)
def test_zoos_open_with_the_same_bits(name: str) -> None:
    zoo = Zoo(STORED / "zoos" / name)
    assert len(zoo) == 12
    assert [len(zoo.members(part)) for part in ("train", "val", "test")] == [8, 2, 2]
    assert digest(zoo) == DIGESTS[name]
    assert zoo.config.folder_name == name
    assert zoo.module(3)(zoo.config.example_input()).isfinite().all()
    assert zoo.graph(3).spec.fingerprint == zoo.spec.fingerprint


@pytest.mark.parametrize("name", DIGESTS)
def test_a_zoo_that_is_whole_is_not_trained_again(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(STORED / "zoos" / name, tmp_path / name))
    times = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.safetensors")}
    assert digest(build(Zoo(folder).config, 12, folder)) == DIGESTS[name]
    assert {path.name: path.stat().st_mtime_ns for path in folder.glob("*.safetensors")} == times


@pytest.mark.parametrize("words", NAMES)
def test_folders_of_zoos_keep_their_names(words: str) -> None:
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        config = compose("config", overrides=words.split())
    assert [zoo_folder(c).name for c in zoo_configs(config, config.zoo)] == NAMES[words]


def test_an_aligner_without_codes_is_refused_by_name() -> None:
    refusal = r"made by an earlier version \(its config has no encoder\.codes\).*train it again, or use"
    with pytest.raises(ValueError, match=refusal):
        DeepAlign.from_pretrained(STORED / "run")
    with pytest.raises(ValueError, match=refusal):
        first_aligner(OmegaConf.create({"start": str(STORED / "run")}))


def test_an_aligner_with_refinement_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"made by an earlier version \(its config has 'refine'\)"):
        DeepAlign({"encoder": {"codes": "spectral"}, "scale": 16.0, "refine": 0})


def test_a_config_that_leaves_something_out_is_not_taken_for_an_old_one() -> None:
    assert DeepAlign({"encoder": {"hidden": 8, "output": 8}}).config.encoder.codes == "spectral"


def test_a_checkpoint_without_needs_is_refused_by_name(tmp_path: Path) -> None:
    shutil.copy(STORED / "run" / "checkpoint.pt", tmp_path)
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    zoo = Zoo(STORED / "zoos" / "mlp-digits-98811a01")
    encoder = {**saved["run"]["aligner"]["encoder"], "codes": "spectral"}
    with pytest.raises(ValueError, match=r"before zoos were drawn by need.*'needs'.*resume=never"):
        train_aligner(
            DeepAlign({"encoder": encoder}), [zoo], TrainConfig(**saved["run"]["training"]), tmp_path, resume=True
        )
