"""From the words of a command line to networks, and back to files."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from wsgraph import Spec, WeightGraph, to_graph, trace
from wsgraph.checkpoints import Checkpoint, read_checkpoint
from wsgraph.entries import entries_for, entry_names, with_entries
from wsgraph.huggingface import model_of
from wsgraph.inputs import usual_input
from wsgraph.modules import tensors_of
from wsgraph.sequential import spec_of_state_dict

from ..deep_align import DeepAlign
from ..methods.auto import LARGE
from ..methods.registry import methods_of
from ..running.inputs import each_tensor
from ..zoo.architectures import own_network
from .options import Shape

ADVICE = "Name the class of the network: --model package.module:Class"


@dataclass(frozen=True, eq=False)
class Loaded:
    """A network from a file.

    Attributes:
        checkpoint: The file.
        network: A module, or the state dict where no class is known.
        names: Of a module, name in the file → name in the module.
    """

    checkpoint: Checkpoint
    network: Any
    names: Mapping[str, str] = field(default_factory=dict)

    def write(self, change: Callable[[str, Tensor], Tensor], path: str | os.PathLike[str]) -> None:
        """This network with every entry changed, in a file like this one's; entries it does not know are kept.

        Args:
            change: Of an entry's name and value.
            path: Where it goes.
        """
        held = tensors_of(self.network) if isinstance(self.network, nn.Module) else self.network
        names = {name: self.names.get(name, name) for name in self.checkpoint.tensors}
        new = ((name, change(own, held[own])) for name, own in names.items() if own in held)
        self.checkpoint.write(new, path)


@dataclass(frozen=True, eq=False)
class Networks:
    """All networks of a command, and how their symmetry is known: ``example_input`` or ``spec``, by name."""

    loaded: list[Loaded]
    symmetry: dict[str, Any]

    @property
    def all(self) -> list[Any]:
        return [one.network for one in self.loaded]

    @property
    def graph(self) -> WeightGraph:
        """Of the first one."""
        return to_graph(self.loaded[0].network, **self.symmetry)


def load(args: argparse.Namespace, paths: Sequence[str], run: str = "") -> Networks:
    """The networks at some paths; see :func:`understood`."""
    return understood(args, [read_checkpoint(path) for path in paths], run)


def understood(args: argparse.Namespace, checkpoints: Sequence[Checkpoint], run: str = "") -> Networks:
    """The networks in some files.

    Args:
        args: With ``model`` and ``example_input``.
        checkpoints: Files or folders.
        run: Who must be able to run the networks, in words; empty where tensors may be enough.
    """
    mapped = not run and _stay_mapped(args, checkpoints)
    template = _template(args.model, checkpoints, weightless=mapped)
    if template is None:
        if run:
            raise ValueError(f"{run} runs the networks, and tensors alone do not say how. {ADVICE}")
        loaded = [Loaded(checkpoint, checkpoint.tensors) for checkpoint in checkpoints]
        return Networks(loaded, {"spec": _chain(checkpoints[0])})
    what = args.model or type(template).__name__
    if mapped:
        return _mapped(template, checkpoints, _example(args.example_input, template, what), what)
    template = template.to(_wide(checkpoints))
    example = _example(args.example_input, template, what)
    return Networks([_filled(template, checkpoint, what) for checkpoint in checkpoints], {"example_input": example})


def question(args: argparse.Namespace, networks: Networks) -> dict[str, Any]:
    """What all matches of a command have in common, as arguments: the symmetry, the seed, an aligner of one's own."""
    asked = {**networks.symmetry, "seed": args.seed}
    return asked if args.aligner is None else {**asked, "aligner": DeepAlign.from_pretrained(args.aligner)}


def _template(name: str | None, checkpoints: Sequence[Checkpoint], weightless: bool = False) -> nn.Module | None:
    folders = [checkpoint.path for checkpoint in checkpoints if checkpoint.path.is_dir()]
    if name is None and not folders:
        return None
    if weightless:
        with suppress(NotImplementedError, RuntimeError), torch.device("meta"):
            return own_network(name) if name is not None else model_of(folders[0])
    return own_network(name) if name is not None else model_of(folders[0])  # perhaps it looks at its own weights


def _chain(checkpoint: Checkpoint) -> Spec:
    """The symmetry of a plain chain of layers, with a warning, for whether it is one cannot be told from tensors."""
    try:
        spec = spec_of_state_dict(checkpoint.tensors)
    except ValueError as error:
        raise ValueError(f"{checkpoint.path}: {error} {ADVICE}") from error
    warnings.warn(
        f"{checkpoint.path} is taken for a plain chain of layers; where layers branch, add up or are transposed "
        "convolutions, name the class of the network: --model package.module:Class",
        stacklevel=2,
    )
    return spec


def _wide(checkpoints: Sequence[Checkpoint]) -> torch.dtype:
    """A type to compute in that holds all numbers exactly: files may mix them, or have them too short to add up."""
    doubles = any(t.dtype == torch.float64 for checkpoint in checkpoints for t in checkpoint.tensors.values())
    return torch.float64 if doubles else torch.float32


def _stay_mapped(args: argparse.Namespace, checkpoints: Sequence[Checkpoint]) -> bool:
    """Whether networks are so large that their files are best left where they are; none of them is run then."""
    size = max(sum(t.numel() for t in checkpoint.tensors.values()) for checkpoint in checkpoints)
    method = getattr(args, "method", None) or "auto"
    return size > LARGE and not any(m.needs_modules for m in methods_of(method))


def _mapped(template: nn.Module, checkpoints: Sequence[Checkpoint], example: Any, what: str) -> Networks:
    """Networks as state dicts under the names of a module that, if its class allows, has no weights of its own."""
    loaded, device = [], next(iter(tensors_of(template).values())).device
    for checkpoint in checkpoints:
        try:
            held = entries_for(template, checkpoint.tensors, what)
        except ValueError as error:
            raise ValueError(f"{checkpoint.path}: {error}") from error
        loaded.append(Loaded(checkpoint, held, entry_names(template, checkpoint.tensors)))
    return Networks(loaded, {"spec": trace(template, each_tensor(lambda t: t.to(device), example))})


def _filled(template: nn.Module, checkpoint: Checkpoint, what: str) -> Loaded:
    try:
        filled = with_entries(template, checkpoint.tensors, what).eval()
        return Loaded(checkpoint, filled, entry_names(template, checkpoint.tensors))
    except ValueError as error:
        raise ValueError(f"{checkpoint.path}: {error}") from error


def _example(shape: Shape | None, template: nn.Module, what: str) -> Any:
    if shape is None:
        try:
            return usual_input(template)
        except ValueError as error:
            raise ValueError(
                f"cannot tell what {what} is called with; pass its shape, batch first: --example-input 2,3,32,32, or "
                "2,16:tokens for whole numbers"
            ) from error
    generator = torch.Generator().manual_seed(0)
    if not shape.tokens:
        like = next(tensor for tensor in tensors_of(template).values() if tensor.is_floating_point())
        return torch.randn(shape.sizes, generator=generator).to(like)
    sizes = [module.num_embeddings for module in template.modules() if isinstance(module, nn.Embedding)]
    return torch.randint(min(sizes, default=2), shape.sizes, generator=generator)


def require_folders(*paths: Path | None) -> None:
    """Raise, before any work is done, if there is no folder for a picture or a page."""
    for path in paths:
        if path is not None and not path.absolute().parent.is_dir():
            raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into; make it first")
