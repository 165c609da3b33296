"""The ATen graph of a module by ``torch.export``; where there is none, the reason and what to do about it."""

from __future__ import annotations

import functools
import gc
import traceback
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree

from . import ops
from .modules import tensors_of
from .outputs import outputs_of
from .quiet import quiet
from .shell import shell
from .verify import require_callable

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)  # themselves: what is derived may read the count
_INSTEAD = (
    "trace a submodule that can be exported, as in trace(model.body, example_input), or describe the symmetry yourself "
    "and pass it: to_graph(model, example_input, spec=Spec(groups=..., params=...))"
)
_BY_VALUE = "because forward needs the value of a tensor, to branch on it or as a number (.item(), a mask that selects)"
_REWRITE = "Rewrite that line with torch.where, keep a number as a plain attribute (self.size = 3), "


def export(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.export.ExportedProgram:
    """The program of an eval-mode shell of ``model``, decomposed where its operators are not understood."""
    if _dtypes(_pytree.tree_leaves((args, kwargs))) <= _dtypes(tensors_of(model).values()):  # others export would take
        with suppress(Exception):
            return _exported(_lean_shell(model), args, kwargs)
    private = _lean_shell(model)
    if not any(t.is_meta for t in tensors_of(model).values()):  # there, forward may look for values that are not
        require_callable(private, args, kwargs)  # which may also set up what forward makes in its first call
    try:
        return _exported(private, args, kwargs)
    except Exception as error:
        raise _refusal(model, error) from error


def _lean_shell(model: nn.Module) -> nn.Module:
    """In eval mode, without the counts of batches that norms keep for training: an export pays for every tensor."""
    private = shell(model).eval()
    for part in private.modules():
        if type(part) in _NORMS and not part.training:
            part.register_buffer("num_batches_tracked", None)
    return private


def _dtypes(values: Iterable[Any]) -> set[torch.dtype]:
    """Of the floating-point tensors among the values."""
    return {value.dtype for value in values if isinstance(value, Tensor) and value.is_floating_point()}


def _exported(private: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.export.ExportedProgram:
    with quiet(), _hurried():
        program = torch.export.export(_discreet(private), args, kwargs)
        if not ops.is_understood(program.graph):  # decomposing takes twice as long as exporting
            table = torch.export.default_decompositions()
            program = program.run_decompositions({op: f for op, f in table.items() if not ops.is_known(op)})
    return program


@contextmanager
def _hurried() -> Iterator[None]:
    """Inside, nodes do not remember which line made them (a third of the time), and no garbage is collected."""
    stacks, collecting = getattr(fx.config, "do_not_emit_stack_traces", False), gc.isenabled()
    fx.config.do_not_emit_stack_traces = True
    gc.disable()
    try:
        with _unwritten():
            yield
    finally:
        fx.config.do_not_emit_stack_traces = stacks
        if collecting:
            gc.enable()


def _unwritten() -> AbstractContextManager[None]:
    """Inside, graphs are written out as Python when that is run, not after every pass (a tenth of the time)."""
    lazily = getattr(getattr(fx, "_lazy_graph_module", None), "_use_lazy_graph_module", None)  # private: it may go
    return nullcontext() if lazily is None else lazily(True)


def _refusal(model: nn.Module, error: BaseException) -> ValueError:
    """What to say when torch.export gives up, and what to do."""
    if isinstance(error, _ForwardError) and error.__cause__ is not None:
        error = error.__cause__
    reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    head, line = f"torch.export cannot export {type(model).__name__}", _blamed_line(error)
    if "data-dependent" in reason or "DataDependent" in reason:
        return ValueError(f"{head}, {_BY_VALUE}: {reason}\n{line}{_REWRITE}{_INSTEAD}")
    return ValueError(f"{head}: {reason}\n{line}Rewrite that line, {_INSTEAD}")


class _ForwardError(Exception):
    """Whatever forward raised, as its cause: torch prints half-finished graphs to stderr for errors it recognises."""


def _discreet(private: nn.Module) -> nn.Module:
    """The module, a private one, with a forward that returns outputs only and raises but :class:`_ForwardError`."""
    forward = private.forward
    for part in private.modules():
        part.to = functools.partial(_converted, part)  # type: ignore[method-assign]

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return outputs_of(forward(*args, **kwargs))
        except Exception as error:
            raise _ForwardError from error

    private.forward = run
    return private


def _converted(part: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    """``part.to(...)`` inside forward: nothing to do where nothing changes; torch.export cannot replace parameters."""
    device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
    if all(_is_like(tensor, device, dtype) for tensor in [*part.parameters(), *part.buffers()]):
        return part
    return type(part).to(part, *args, **kwargs)


def _is_like(tensor: Tensor, device: torch.device | None, dtype: torch.dtype | None) -> bool:
    return (device is None or tensor.device == device) and (
        dtype is None or tensor.dtype == dtype or not tensor.is_floating_point()
    )


def _blamed_line(error: BaseException) -> str:
    """The innermost line outside torch and this package on the way to the error."""
    ours = tuple(str(Path(file).parent) for file in (torch.__file__, __file__))
    found = ""
    while True:
        for frame in traceback.extract_tb(error.__traceback__):
            if not frame.filename.startswith((*ours, "<")) and frame.line:
                found = f"It gives up at {frame.filename}, line {frame.lineno}: {frame.line}\n"
        if found or error.__cause__ is None:
            return found
        error = error.__cause__
