"""What counts as the output of a network: of an answer with named members those that are tensors, not its caches."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from torch import Tensor

CACHES = ("past_key_values", "cache_params", "mems")
"""What a next call would start from, by the names that Hugging Face gives it; some are tuples of tensors."""


def outputs_of(returned: Any) -> Any:
    """Whatever a network returns, with the tensors alone of what is a class of named members (``ModelOutput``).

    Such a class is an ``OrderedDict``. It holds tensors, tuples of them, others of its kind, and objects that help to
    continue. One without any tensor is returned as it is.
    """
    if not _has_members(returned):
        return returned
    members = {name: outputs_of(value) for name, value in returned.items() if name not in CACHES}
    return {name: value for name, value in members.items() if _is_tensors(value)} or returned


def _has_members(returned: Any) -> bool:
    return isinstance(returned, OrderedDict) and type(returned) is not OrderedDict


def _is_tensors(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value
    return isinstance(value, Tensor) or (isinstance(value, (tuple, list, dict)) and all(map(_is_tensors, inner)))
