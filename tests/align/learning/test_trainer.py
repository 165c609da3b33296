"""Training teaches, resumes exactly, and loses nothing."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from lightning_fabric.plugins import MixedPrecision

from align import DeepAlign, DeepAlignConfig
from align.judging.evaluation import Look, aligned, line_barrier, pairs_of
from align.learning import checkpoint
from align.learning.checkpoint import load_checkpoint, save_checkpoint
from align.learning.settings import TrainConfig
from align.learning.trainer import make_fabric, train_aligner
from wsgraph import EncoderConfig

SMALL = DeepAlignConfig(encoder=EncoderConfig(hidden=16, output=24, messages=16, sweeps=2))


def new():
    torch.manual_seed(0)
    return DeepAlign(SMALL)


def run(zoos, folder=None, resume=False, **options):
    """Losses by step, and the trained aligner."""
    seen = {}
    config = TrainConfig(**{"pairs": 2, "labelled": 2, "images": 16, **options})
    aligner = train_aligner(new(), zoos, config, folder, resume, lambda k, v: seen.setdefault(k, dict(v)))
    return seen, aligner


def same(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def held_out(aligner, zoo):
    pairs = pairs_of(zoo, "test", 8)
    return float(line_barrier(zoo, pairs, aligned(aligner, zoo, pairs), points=7))


def test_training_lowers_the_held_out_barrier(tiny_zoo):
    before = held_out(new(), tiny_zoo)
    seen, aligner = run([tiny_zoo], steps=60, pairs=4, labelled=4)
    assert not aligner.training
    first, last = ([seen[k]["supervised"] for k in r] for r in (range(1, 11), range(51, 61)))
    assert sum(last) < 0.75 * sum(first)  # even a new aligner knows a network from another
    assert held_out(aligner, tiny_zoo) < 0.8 * before


def test_training_is_reproducible_and_mixes_architectures(tiny_zoo, wave_zoo):
    (seen, a), (again, b) = (run([tiny_zoo, wave_zoo], steps=4) for _ in range(2))
    assert seen == again
    assert same(a, b)


def test_a_checkpoint_of_another_run_is_refused(tiny_zoo, tmp_path):
    run([tiny_zoo], tmp_path, steps=1, checkpoint=1)
    with pytest.raises(ValueError, match=r"of another run: its training is(.|\n)*resume=never"):
        run([tiny_zoo], tmp_path, resume=True, steps=1, checkpoint=1, lr=0.1)
    save_checkpoint(tmp_path, {"step": 1, "needs": [1.0]})
    with pytest.raises(
        ValueError, match=r"is not what a training writes \(KeyError\('run'\)\); start anew with resume"
    ):
        run([tiny_zoo], tmp_path, resume=True, steps=1, checkpoint=1)


def test_a_run_goes_on_that_knew_fewer_settings(tiny_zoo, tmp_path):
    """Versions before had no ``alignment_end`` and no ``refinement``, and did what the defaults do."""
    run([tiny_zoo], tmp_path, steps=1, checkpoint=1)
    saved = load_checkpoint(tmp_path)
    del saved["run"]["training"]["alignment_end"], saved["run"]["aligner"]["refinement"]
    save_checkpoint(tmp_path, saved)
    seen, _ = run([tiny_zoo], tmp_path, resume=True, steps=2, checkpoint=1)
    assert list(seen) == [2]
    save_checkpoint(tmp_path, saved)
    with pytest.raises(ValueError, match="of another run: its training is"):
        run([tiny_zoo], tmp_path, resume=True, steps=2, checkpoint=1, alignment_end=0.0)


@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_a_resumed_run_equals_an_uninterrupted_one(tiny_zoo, tmp_path, ema):
    options = {"steps": 8, "validate": 3, "ema": ema}
    whole, aligner = run([tiny_zoo], **options)

    class StopError(Exception):
        pass

    def stop(k, values):
        if k == 6:
            raise StopError

    config = TrainConfig(pairs=2, labelled=2, images=16, checkpoint=4, **options)
    with pytest.raises(StopError):
        train_aligner(new(), [tiny_zoo], config, tmp_path, report=stop)
    rest, resumed = run([tiny_zoo], tmp_path, resume=True, checkpoint=4, **options)
    assert rest == {k: v for k, v in whole.items() if k > 4}
    assert same(aligner, resumed)


SCRIPT = """
import json, os, signal, sys, torch
from align import DeepAlign, DeepAlignConfig
from align.learning.settings import TrainConfig
from align.learning.trainer import make_fabric, train_aligner
from align.zoo import Zoo
from wsgraph import EncoderConfig
torch.set_num_threads(1)
zoo, folder, steps, processes, stop = sys.argv[1:]
fabric = make_fabric(devices=int(processes), strategy="ddp" if processes != "1" else "auto")
fabric.launch()
torch.manual_seed(0)
aligner = DeepAlign(DeepAlignConfig(encoder=EncoderConfig(hidden=16, output=24, messages=16, sweeps=2)))
config = TrainConfig(steps=int(steps), pairs=4, labelled=4, images=16, checkpoint=5)
def report(k, values):
    if fabric.is_global_zero:
        print(json.dumps([k, values]), flush=True)
    if k == int(stop):
        os.kill(os.getpid(), signal.SIGKILL)
train_aligner(aligner, [Zoo(zoo)], config, folder, True, report, fabric)
torch.save(aligner.state_dict(), folder + "/final.pt")
"""


def start(zoo, folder, steps, processes=1, stop=0):
    """A training of its own; it prints one line per step, and kills itself at step ``stop``."""
    folder.mkdir(exist_ok=True)
    script = folder / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-W", "ignore", script, zoo.folder, folder, str(steps), str(processes), str(stop)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)


def losses_of(output):
    """Losses by step, of the lines a training printed."""
    return dict(json.loads(line) for line in output if line.startswith("["))


def killed_at(zoo, folder, steps, stop):
    """The lines that a training printed until it was killed; by itself, as another process might be too late."""
    process = start(zoo, folder, steps, stop=stop)
    lines = process.communicate()[0].splitlines()
    assert process.returncode == -signal.SIGKILL
    return lines


def test_kill_9_and_resume_reproduces_the_losses(tiny_zoo, tmp_path):
    whole = losses_of(start(tiny_zoo, tmp_path / "whole", 16).communicate()[0].splitlines())
    assert sorted(whole) == list(range(1, 17))
    folder = tmp_path / "killed"
    for step in (7, 12):
        lines = losses_of(killed_at(tiny_zoo, folder, 16, step))
        assert max(lines) == step
        assert lines.items() <= whole.items()
    rest = losses_of(start(tiny_zoo, folder, 16).communicate()[0].splitlines())
    assert sorted(rest) == list(range(11, 17))
    assert rest.items() <= whole.items()
    ends = [torch.load(tmp_path / name / "final.pt", weights_only=True) for name in ("whole", "killed")]
    assert all(torch.equal(ends[0][k], ends[1][k]) for k in ends[0])


def test_two_processes_give_the_losses_of_one_with_the_whole_batch(tiny_zoo, tmp_path):
    one, two = (
        losses_of(start(tiny_zoo, tmp_path / str(n), 4, processes=n).communicate()[0].splitlines()) for n in (1, 2)
    )
    assert sorted(one) == sorted(two) == [1, 2, 3, 4]
    for k, values in one.items():
        assert values == pytest.approx(two[k], rel=2e-3)


def test_a_stop_request_saves_the_step_at_hand(tiny_zoo, tmp_path):
    def ask(k, values):
        if k == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    config = TrainConfig(steps=50, pairs=2, labelled=2, images=16)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt, match="stopped at step 3; resume from"):
        train_aligner(new(), [tiny_zoo], config, tmp_path, report=ask)
    assert load_checkpoint(tmp_path)["step"] == 3
    assert signal.getsignal(signal.SIGTERM) == before


def test_training_works_outside_the_main_thread(tiny_zoo):
    found = []
    thread = threading.Thread(target=lambda: found.append(run([tiny_zoo], steps=1)))
    thread.start()
    thread.join()
    assert found


def test_a_diverged_loss_stops_with_the_last_good_checkpoint(tiny_zoo, tmp_path):
    aligner = new()

    def spoil(k, values):
        if k == 5:
            with torch.no_grad():
                aligner.s.fill_(math.nan)

    config = TrainConfig(steps=9, pairs=2, labelled=2, images=16, checkpoint=2)
    message = r"not finite at step 5; the last good checkpoint, of step 4, is in .*Lower lr"
    with pytest.raises(FloatingPointError, match=message):
        train_aligner(aligner, [tiny_zoo], config, tmp_path, report=spoil)
    assert math.isfinite(load_checkpoint(tmp_path)["aligner"]["s"])


def test_mixed_precision_trains(tiny_zoo):
    config, seen = TrainConfig(steps=2, pairs=2, labelled=2, images=16), {}
    fabric = make_fabric(devices=1, precision="bf16-mixed")
    train_aligner(new(), [tiny_zoo], config, report=lambda k, v: seen.setdefault(k, dict(v)), fabric=fabric)
    plain, _ = run([tiny_zoo], steps=2)
    assert seen[1] == pytest.approx(plain[1], rel=0.3)
    assert seen[1] != plain[1]


def test_a_gradient_scaler_may_overflow(tiny_zoo):
    """Half precision finds the scale of its gradients by trial: a step that overflows is left out, and no error."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    fabric = make_fabric(devices=1, plugins=MixedPrecision("16-mixed", "cpu", scaler))
    config = TrainConfig(steps=1, pairs=2, labelled=2, images=16)
    assert same(train_aligner(new(), [tiny_zoo], config, fabric=fabric), new())
    assert scaler.get_scale() < 2.0**127


def test_a_full_disk_is_reported_and_the_last_checkpoint_stays(tmp_path, monkeypatch):
    assert save_checkpoint(tmp_path, {"step": 1})

    def full(path, content):
        with path.open("wb") as file:
            file.write(content[:9])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.warns(UserWarning, match="no checkpoint at step 2: .*No space left.*the last one is kept"):
        assert not save_checkpoint(tmp_path, {"step": 2})
    assert load_checkpoint(tmp_path)["step"] == 1
    assert [p.name for p in tmp_path.iterdir()] == [checkpoint.NAME]


def test_a_damaged_checkpoint_is_named(tmp_path):
    (tmp_path / checkpoint.NAME).write_bytes(b"no checkpoint")
    with pytest.raises(ValueError, match=r"checkpoint.pt is not a checkpoint .*delete it to start anew"):
        load_checkpoint(tmp_path)


def test_the_best_validated_aligner_is_returned_and_patience_ends_training(tiny_zoo, monkeypatch):
    values = iter([0.6, 0.5, 0.2, 0.4, 0.3, 0.1])  # the first is that of what training starts from
    kept = []

    def judge(aligner):
        kept.append({k: t.clone() for k, t in aligner.state_dict().items()})
        return Look(next(values), (1.0,))

    monkeypatch.setattr("align.learning.trainer.Validation", lambda zoos: judge)
    seen, aligner = run([tiny_zoo], steps=10, validate=1, patience=2)
    assert len(seen) == 4
    assert all(torch.equal(t, kept[2][k]) for k, t in aligner.state_dict().items())
    values = iter([0.1, 0.5, 0.2])
    kept.clear()
    _, aligner = run([tiny_zoo], steps=2, validate=1)
    assert all(torch.equal(t, kept[0][k]) for k, t in aligner.state_dict().items())
