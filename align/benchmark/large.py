"""``wsalign match`` of large checkpoints: seconds, and memory beside the mapped files.

Both networks are folders of Hugging Face in bfloat16: ``a`` has random weights, ``b`` is ``a`` under a random element
of the whole group found, with noise. A process of its own runs the command and this one watches it. What it has in use
once torch and transformers are imported and a tiny network of that kind is matched does not count.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import tempfile
import time
from contextlib import redirect_stdout
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from safetensors.torch import load_file, save_file
from torch import Tensor

from wsgraph import Permutation, trace
from wsgraph.modules import tensors_of
from wsgraph.sums import squared_distance
from wsgraph.ties import untied

from ..cli.command import main as wsalign
from .memory import anonymous
from .models import hugging_face, tokens

SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT-2": ("GPT2LMHeadModel", {}),
    "TinyLlama": (
        "LlamaForCausalLM",
        {
            "hidden_size": 2048,
            "intermediate_size": 5632,
            "num_hidden_layers": 22,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
        },
    ),
}
"""Name → the model and its published sizes, where they are not the default ones."""
TINY: dict[str, dict[str, Any]] = {
    "GPT2LMHeadModel": {"n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 50, "n_positions": 16},
    "LlamaForCausalLM": {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2},
}
NOISE = 0.1
"""Of b, relative to a tensor's standard deviation."""
EVERY = 0.005
"""Seconds between two looks at the memory."""


def large(names: list[str]) -> None:
    """Print a line for every shape whose name contains one of some words."""
    for name in SHAPES:
        if not names or any(word.lower() in name.lower() for word in names):
            with tempfile.TemporaryDirectory() as folder:
                Console(width=200, markup=False).print(measure(name, Path(folder)))


def measure(name: str, folder: Path) -> str:
    """What matching a network of a shape with its permuted, noisy copy takes, in words."""
    kind, sizes = SHAPES[name]
    write_pair(kind, TINY[kind], folder / "tiny")
    size, planted = write_pair(kind, sizes, folder / "large")
    spawn = multiprocessing.get_context("spawn")  # a new interpreter, whose memory is its own
    here, there = spawn.Pipe()
    worker = spawn.Process(target=_work, args=(folder, there, torch.get_num_threads()), daemon=True)
    worker.start()
    assert here.recv() == "ready"
    assert worker.pid is not None
    before = peak = anonymous(worker.pid)
    here.send("go")
    while not here.poll(EVERY):
        peak = max(peak, anonymous(worker.pid))
    seconds, distance = here.recv()
    worker.join()
    found = "recovered" if distance <= planted * 1.001 else f"NOT recovered (distance {distance:.4g} of {planted:.4g})"
    return (
        f"{name}, {size // 2:,} weights, {torch.get_num_threads()} thread(s): {seconds:.0f} s, {found}, peak "
        f"{(peak - before) / size:.2f} × one network beside the mapped files ({(peak - before) / 2**20:.0f} MiB)"
    )


def write_pair(kind: str, sizes: dict[str, Any], folder: Path) -> tuple[int, float]:
    """Two networks as folders ``a`` and ``b``; bytes of one, and ‖b − P a‖."""
    with torch.device("meta"):
        model = hugging_face(kind, **sizes).eval()
        spec = trace(model, {"input_ids": tokens(), "use_cache": False})
    generator = torch.Generator().manual_seed(0)
    config: Any = model.config
    config.architectures = [kind]
    for part in "ab":
        config.save_pretrained(folder / part)
    held = untied(tensors_of(model))
    save_file({name: _random(t, generator) for name, t in held.items()}, folder / "a" / "model.safetensors")
    first = load_file(folder / "a" / "model.safetensors")
    planted, second, apart = Permutation.random(spec, generator), dict[str, Tensor](), 0.0
    for name, tensor in first.items():
        moved = planted.permute(name, tensor)
        noise = torch.randn(moved.shape, generator=generator).mul_(NOISE * float(moved.float().std()))
        second[name] = (moved + noise).bfloat16()
        apart += squared_distance(moved, second[name])
    save_file(second, folder / "b" / "model.safetensors")
    return sum(t.nbytes for t in first.values()), apart**0.5


def _random(like: Tensor, generator: torch.Generator) -> Tensor:
    """Weights as wide as trained ones; norms scale by about 1."""
    drawn = torch.randn(like.shape, generator=generator)
    return (drawn.mul_(0.02) if like.dim() > 1 else drawn.mul_(0.1).add_(1)).bfloat16()


def _work(folder: Path, pipe: Connection, threads: int) -> None:
    torch.set_num_threads(threads)
    match(folder / "tiny")
    pipe.send("ready")
    pipe.recv()
    start = time.perf_counter()
    distance = match(folder / "large")
    pipe.send((time.perf_counter() - start, distance))


def match(folder: Path) -> float:
    """``wsalign match a b -o c``: how far c is from a."""
    paths = [str(folder / name) for name in "abc"]
    words = ["match", *paths[:2], "-o", paths[2], "--method", "weight_matching", "--json"]
    with redirect_stdout(io.StringIO()) as shown:
        code = wsalign(words)
    if code:
        raise RuntimeError(f"wsalign {' '.join(words)} failed")
    return float(json.loads(shown.getvalue())["distance"]["after"])
