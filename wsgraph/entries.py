"""Entries of a state dict from elsewhere in a module: under other names, in part, or with more beside them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from .modules import tensors_of, with_tensors

WRAPPERS = ("module.", "_orig_mod.")
"""What DataParallel and torch.compile put before the names of a state dict."""


def entry_names(module: nn.Module, names: Collection[str]) -> dict[str, str]:
    """Name in a state dict → name in ``module``, which need not know it.

    Wrappers put something before all names; models of ``transformers`` may leave out the name of their base model.
    """
    known, wrapper = tensors_of(module), ""
    while names and (more := [w for w in WRAPPERS if all(name.startswith(wrapper + w) for name in names)]):
        if any(name.startswith(wrapper + more[0]) for name in known):
            break
        wrapper += more[0]
    plain = {name: name.removeprefix(wrapper) for name in names}
    base = f"{getattr(module, 'base_model_prefix', '')}."
    if any(name.startswith(base) for name in plain.values()):
        return plain
    return {name: base + short if base + short in known else short for name, short in plain.items()}


def with_entries(module: nn.Module, tensors: Mapping[str, Tensor], what: str) -> nn.Module:
    """A copy of ``module`` that holds the entries of a state dict, in its own types; unknown ones are left out.

    Args:
        module: The template.
        tensors: State dict entries; of tied ones, one name is enough.
        what: Name of the module in messages.
    """
    held = tensors_of(module)
    given = entries_for(module, tensors, what)
    return with_tensors(module, {name: tensor.to(held[name].dtype) for name, tensor in given.items()})


def entries_for(module: nn.Module, tensors: Mapping[str, Tensor], what: str) -> dict[str, Tensor]:
    """The entries of a state dict that ``module`` has, under all names it has for them; see :func:`with_entries`."""
    held, names = tensors_of(module), entry_names(module, tensors)
    given = {names[name]: tensor for name, tensor in tensors.items() if names[name] in held}
    _require_all(held, given, [name for name in tensors if names[name] not in held], what)
    tied: dict[int, str] = {}
    for name, tensor in given.items():
        if tensor.shape != held[name].shape:
            raise ValueError(
                f"'{name}' has shape {tuple(tensor.shape)} in the checkpoint and {tuple(held[name].shape)} in {what}; "
                "pass the class, with the sizes, that was trained"
            )
        twin = tied.setdefault(id(held[name]), name)
        if twin != name and not torch.equal(tensor, given[twin]):
            raise ValueError(
                f"'{twin}' and '{name}' are one tensor in {what} and differ in the checkpoint; pass the class that was "
                "trained, where they are not tied"
            )
    return {name: given[tied[id(tensor)]] for name, tensor in held.items()}


def _require_all(held: Mapping[str, Tensor], given: Mapping[str, Tensor], others: list[str], what: str) -> None:
    there = {id(held[name]) for name in given}
    missing = [name for name, tensor in held.items() if id(tensor) not in there]
    if missing:
        raise ValueError(
            f"{what} has {len(missing)} entries that the checkpoint lacks, such as '{missing[0]}'; those of the "
            f"checkpoint that it does not know: {others[:3] or 'none'}. Pass the class that was trained"
        )
