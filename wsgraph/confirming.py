"""Check a Spec that somebody wrote as a trace checks itself: against its module, once per architecture."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Hashable

from torch import nn

from .architecture import architecture_key
from .inputs import ExampleInput, as_call, usual_input
from .modules import tensors_of
from .spec import Spec
from .verify import require_callable, verify_spec

_CONFIRMED: OrderedDict[Hashable, None] = OrderedDict()
_SIZE = 256


def remember(key: tuple[Hashable, Hashable], spec: Spec) -> None:
    """Take note that ``spec`` holds for the networks of an architecture's key, on whatever input."""
    network, _ = key
    _CONFIRMED[network, spec.fingerprint] = None
    while len(_CONFIRMED) > _SIZE:
        _CONFIRMED.popitem(last=False)


def confirm(model: nn.Module, spec: Spec, example_input: ExampleInput | None = None) -> None:
    """Raise unless ``spec`` is a symmetry of ``model``; a warning if there is no input to run it on.

    Args:
        spec: Of the model's own parameters and shapes.
        example_input: Inferred when omitted, where that is possible. On the meta device nothing is checked.
    """
    key = architecture_key(model, None)
    known = key is not None and (key[0], spec.fingerprint) in _CONFIRMED
    if known or any(t.is_meta for t in tensors_of(model).values()):
        return
    if example_input is None:
        try:
            example_input = usual_input(model)
        except ValueError:
            warnings.warn(
                f"the Spec was not checked against {type(model).__name__}, because there is no input to run it on: "
                "pass example_input=, or verify=False to take the Spec as it is",
                stacklevel=3,
            )
            return
    args, kwargs = as_call(example_input)
    require_callable(model, args, kwargs)
    verify_spec(model, spec, args, kwargs, given=True)
    if key is not None:
        remember(key, spec)
