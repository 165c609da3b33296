"""Configs compose, and the command explains itself, trains, resumes and reports."""

import json
import os
import re
import subprocess
import sys

import pytest
import torch
from hydra import compose, initialize_config_dir
from safetensors.torch import save_file

from align import DeepAlign
from align.cli.command import main as wsalign
from align.configuration import choices, config_folder, spelled_out
from align.data import FetchError
from align.judging.compare import with_error
from align.learning.checkpoint import load_checkpoint
from align.learning.settings import TrainConfig
from align.learning.stages import run as run_here
from align.learning.stages import zoos_of
from align.train import main
from align.zoo.composed import build_zoos, zoo_configs
from align.zoo.families import family
from wsgraph.alone import alone

TINY = [
    *(
        "zoo.count=24",
        "arch.args.hidden=[8,8]",
        "data.epochs=1",
        "optim.steps=3",
        "optim.pairs=2",
        "optim.labelled=2",
        "optim.validate=2",
    ),
    *("eval.pairs=2", "eval.points=5", "eval.sinkhorn=2", "encoder.hidden=16", "encoder.output=16"),
]


def composed(*words):
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        return compose("config", overrides=list(words))


def run(*words, cwd):
    command = [sys.executable, "-m", "align.train", *words]
    environment = {**os.environ, "WSGRAPH_DATA": str(cwd / "cache"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("preset", choices("preset"))
@pytest.mark.parametrize("arch", choices("arch"))
def test_every_architecture_composes_at_every_scale(arch, preset):
    own = ["arch.make=torch.nn:Identity"] if arch == "own" else []
    config = composed(f"+arch={arch}", f"preset={preset}", *own)
    assert zoo_configs(config, config.zoo)
    assert config.zoo.count > 0
    TrainConfig(**config.loss, **config.optim, seed=config.seed)


@pytest.mark.parametrize("data", [data for data in choices("data") if data != "own"])
def test_every_data_set_composes(data):
    config = composed("+arch=mlp", f"data={data}")
    (zoo,) = zoo_configs(config, config.zoo)
    assert zoo.data == data
    assert list(zoo.args["inputs"]) == list(config.data.shape)


@pytest.mark.parametrize("group", ["loss", "optim", "encoder", "eval", "zoo"])
def test_every_other_choice_composes(group):
    for choice in choices(group):
        config = composed("+arch=mlp", f"{group}={choice}")
        settings = TrainConfig(**config.loss, **config.optim)
        assert settings.steps == config.optim.steps > 0


def test_settings_for_one_family_go_with_any_architecture():
    config = composed("+experiment=family", "+arch=cnn", "optim.steps=7")
    settings = TrainConfig(**config.loss, **config.optim)
    assert (settings.steps, settings.alignment_end, config.encoder.codes) == (7, 0, "grid")
    assert zoo_configs(config, config.zoo)


@pytest.mark.parametrize("experiment", [name for name in choices("experiment") if name != "family"])
def test_every_experiment_names_families_that_compose(experiment):
    config = composed(f"+experiment={experiment}")
    if "drawn" in config.families:
        drawn = config.families.drawn
        assert len({family(k, drawn.seed).folder_name for k in range(drawn.count)}) == drawn.count
        return
    for chosen in config.families:
        part = composed(f"+arch={chosen.arch}", f"data={chosen.get('data', 'digits')}")
        assert zoo_configs(part, part.zoo)


def test_an_experiment_builds_the_zoos_of_all_its_families(tmp_path, monkeypatch):
    monkeypatch.setenv("WSGRAPH_DATA", str(tmp_path))
    small = {"zoo.count": 6, "arch.together": 2, "arch.laptop.recipe.epochs": 1, "zoo.workers": 1}
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        config = compose("config", overrides=["+experiment=mixture"])
        config.families = [{"arch": "mlp", "data": "digits", "changes": small}, {"arch": "inr_sine", "changes": small}]
        names = [zoo.config.name for zoo in zoos_of(config)]
    assert names == ["mlp", "inr_sine"]


def test_the_zoos_of_an_experiment_are_built_where_they_are_told(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "align.learning.stages.build_zoos", lambda _, zoo: seen.append((zoo.engine, zoo.workers, zoo.address)) or []
    )
    words = ["+experiment=mixture", "zoo.engine=ray", "zoo.workers=7", "zoo.address='ray://host:10001'"]
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        zoos_of(compose("config", overrides=words))
    assert seen == [("ray", 7, "ray://host:10001")] * 4


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("start=nowhere", "no aligner in start=nowhere; expected new, pretrained or a finished run's folder"),
        ("resume=nevr", "resume=nevr is neither auto nor never"),
        ("wandb=true", "wandb=true needs Weights & Biases: pip install wandb"),
        ("optim.steps=abc", "^steps is 'abc', expected a whole number$"),
        ("optim.steps=-1", "^steps is -1, expected at least 0$"),
        ("optim.lr=-1", "^lr is -1, expected a number above 0$"),
        ("optim.pairs=0", "^pairs is 0, expected at least 1$"),
        ("loss.mask=1", "^mask is 1, expected 0 or more, below 1$"),
        ("seed=abc", "^seed is 'abc', expected a whole number$"),
        ("encoder.hidden=wide", "^encoder.hidden is 'wide', expected a whole number$"),
        ("eval.pairs=few", "^eval.pairs is 'few', expected a whole number$"),
    ],
)
def test_wrong_settings_are_told_before_anything_is_trained(word, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("align.learning.stages.zoos_of", lambda _: pytest.fail("networks are trained"))
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises((ValueError, ImportError), match=message):
        run_here(composed("+arch=mlp", word))


def test_losses_that_all_weigh_nothing_are_refused():
    with pytest.raises(ValueError, match="supervised, lmc and alignment are all 0: there is no loss to train with"):
        TrainConfig(supervised=0, lmc=0, alignment=0)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("+arch=mpl", r"\+arch=mpl: no such arch; did you mean \+arch=mlp\? Choose one of cnn, inr_image"),
        ("data=fashion", r"data=fashion: no such data; did you mean data=fashion_mnist\? Choose one of cifar10"),
        ("+arch=zzz", r"\+arch=zzz: no such arch; Choose one of cnn"),
        ("threads=many", "threads is 'many', expected a whole number"),
    ],
)
def test_a_mistyped_choice_ends_in_a_message(word, message, monkeypatch):
    arch = [] if "arch" in word else ["+arch=mlp"]
    monkeypatch.setattr(sys, "argv", ["align.train", word, *arch])
    with pytest.raises(SystemExit, match=message):
        main()


def test_two_trainings_in_one_folder_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("align.learning.stages.zoos_of", lambda _: pytest.fail("networks are trained"))
    with alone(tmp_path, OSError()), pytest.raises(ValueError, match=r"another training writes to .*output="):
        run_here(composed("+arch=mlp", f"output={tmp_path}"))


def test_data_that_cannot_be_fetched_ends_in_a_message(monkeypatch, tmp_path):
    def missing(_):
        raise FetchError("no network")

    monkeypatch.setattr("align.learning.stages.zoos_of", missing)
    monkeypatch.setattr(sys, "argv", ["align.train", "+arch=mlp", f"output={tmp_path}"])
    with pytest.raises(SystemExit, match="no network"):
        main()


def test_without_an_architecture_the_choices_are_listed(tmp_path):
    done = run(cwd=tmp_path)
    assert done.returncode != 0
    listed = "cnn, inr_image, inr_sine, mlp, mlp_diverse, own, resnet20, vgg11, vgg16"
    assert f"no architecture chosen; pass +arch=<one of {listed}>" in done.stderr


def test_help_teaches_by_example(tmp_path):
    done = run("--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "python -m align.train +experiment=mixture" in done.stdout
    assert "arch: cnn, inr_image" in done.stdout
    assert "wandb: false" in done.stdout


def test_an_architecture_of_ones_own_is_trained_and_aligned(tmp_path):
    (tmp_path / "nets.py").write_text(
        "from torch import nn\n"
        "class Mine(nn.Sequential):\n"
        "    def __init__(self, width=4):\n"
        "        norm = nn.BatchNorm2d(width)\n"
        "        super().__init__(nn.Conv2d(1, width, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(36 * width, 10))\n"
    )
    changes = [word for word in TINY if "args" not in word and "count" not in word]
    words = ["+arch=own", "arch.make=nets:Mine", "+arch.args.width=6", "zoo.count=12", "zoo.workers=2", *changes]
    done = run(*words, "output=out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "12 networks: train=8, val=2, test=2" in done.stdout
    assert "deep align" in done.stdout


def test_a_list_of_architectures_is_refused_with_advice(tmp_path):
    done = run("+arch=[mlp,cnn]", cwd=tmp_path)
    assert done.returncode != 0
    assert "would merge them into one; list them in an experiment" in done.stderr


def test_a_tiny_run_ends_with_an_aligner_a_table_pictures_and_a_report(tmp_path):
    done = run("+arch=mlp", *TINY, "output=out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "laptop scale" in done.stdout
    assert "deep align + 2 sinkhorn" in done.stdout
    out = tmp_path / "out"
    files = {"model.safetensors", "config.json", "config.yaml", "metrics.json", "report.html"}
    assert {p.name for p in out.iterdir()} >= {*files, "checkpoint.pt", "tensorboard"}
    ((zoo, rows),) = json.loads((out / "metrics.json").read_text()).items()
    assert list(rows) == [
        *("not aligned", "weight matching", "covariance matching", "activation matching"),
        *("activation matching on noise", "deep align", "deep align + 2 sinkhorn"),
    ]
    assert all(row["barrier"] >= 0 and row["pairs"] == 2 for row in rows.values())
    page = (out / "report.html").read_text()
    assert "<h2>mlp on digits</h2>" in page
    assert f"2 pairs of 3 held-out networks; {zoo} has 24 networks, 16 of them to train aligners on." in page
    assert "AUC\nthe mean" in page
    assert "accuracy half way that of" in page
    card = (out / "README.md").read_text()
    assert f"| deep align | {with_error(rows['deep align']['barrier'], rows['deep align']['error'])} |" in card
    assert "More Information Needed" not in card
    assert all((out / f"{zoo}-{kind}.png").is_file() for kind in ("lines", "permutations"))
    assert page.count("<img src=") == page.count('<img src="data:image/png;base64,') == 1
    assert page.count("<polyline ") == len(rows)
    assert not DeepAlign.from_pretrained(out).training
    again = run("+arch=mlp", *TINY, "output=out", cwd=tmp_path)  # finished already: judged again, not trained
    assert again.returncode == 0, again.stderr
    assert json.loads((out / "metrics.json").read_text()).popitem()[1]["deep align"] == rows["deep align"]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with ``nets.py``, nine networks in ``runs/`` and data for them; tests are in it."""
    (tmp_path / "nets.py").write_text(
        "from torch import nn\n"
        "class Mine(nn.Sequential):\n"
        "    def __init__(self, width=8):\n"
        "        super().__init__(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, 3))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    import nets

    (tmp_path / "runs").mkdir()
    for k in range(9):
        torch.manual_seed(k)
        save_file(nets.Mine().state_dict(), tmp_path / "runs" / f"{k}.safetensors")
    save_file({"inputs": torch.randn(50, 4), "targets": torch.arange(50) % 3}, tmp_path / "data.safetensors")
    yield tmp_path
    sys.modules.pop("nets")


OWN = ["+arch=own", "arch.make=nets:Mine", "zoo.files='runs/*.safetensors'", "data=data.safetensors"]
SHORT = ["optim.pairs=2", "optim.labelled=2", "optim.validate=1", "eval.pairs=1", "eval.points=3", "eval.sinkhorn=0"]


def test_networks_that_one_has_become_an_aligner_and_a_map(mine, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["align.train", *OWN, *SHORT, "optim.steps=1"])
    main()
    assert re.search(r"Zoo\(own-\w+, 9 networks: train=5, val=2, test=2\)", capsys.readouterr().out)
    out = mine / "outputs" / "own-own"
    assert "start: pretrained" in (out / "config.yaml").read_text()
    files = sorted(str(path) for path in (mine / "runs").iterdir())
    words = ["--method", "deep_align", "--aligner", str(out), "--model", "nets:Mine", "-o", "map.png"]
    assert wsalign(["distance", *files[:3], *words]) == 0
    assert (mine / "map.png").stat().st_size > 0
    monkeypatch.setattr(sys, "argv", ["align.train", *OWN, *SHORT, "optim.steps=2"])  # more of a finished training
    main()
    saved = load_checkpoint(out)
    assert (saved["step"], saved["run"]["training"]["steps"]) == (2, 2)
    (mine / "runs" / "0.safetensors").write_bytes((mine / "runs" / "1.safetensors").read_bytes())
    with pytest.raises(SystemExit, match=r"is of another run: its zoos is|hold the same network"):
        main()


REFUSED = {
    "zoo.files='run/*.pt'": r"zoo.files=run/\*.pt matches no file in .*; expected a pattern in quotes, as zoo.files=",
    "zoo.files='runs/[0-6].safetensors'": "got 7 networks, expected at least 8",
    "+arch.args.height=3": r"'nets:Mine' cannot be called with {'height': 3} \(.*\); name a function of yours",
    "arch.make=nets:Yours": "'nets:Yours': its module has no such name, expected a class, or a function that makes",
    "data=inputs.safetensors": "inputs.safetensors has inputs only, and a loss needs targets, too; add an entry",
    "data=nothing.safetensors": "there is no file nothing.safetensors",
    "zoo.files=null": "data=data.safetensors is your own, and networks are trained here on data sets of this package o",
    "arch.task=waves": "zoo.files= are networks of one architecture for one task, and own is none; name their class",
}


@pytest.mark.parametrize("word", REFUSED)
def test_refused_of_ones_own(word, mine):
    save_file({"inputs": torch.randn(50, 4)}, mine / "inputs.safetensors")
    config = composed(*spelled_out([*OWN, word]))
    with pytest.raises((ValueError, OSError), match=REFUSED[word]):
        build_zoos(config, config.zoo)
