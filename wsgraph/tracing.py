"""Find the permutation symmetry of any ``nn.Module``: an abstract interpreter over its exported ATen graph."""

from __future__ import annotations

import operator
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from . import ops
from .architecture import architecture_key
from .axes import Atom, Dim, fixed, pin
from .confirming import remember
from .exporting import export
from .inputs import ExampleInput, as_call, usual_input
from .modules import tensors_of
from .naming import INPUT, OUTPUT, GroupNames
from .nesting import anchor, renewed
from .scaling import find_scalings
from .sizes import measured
from .spec import Axis, Param, Scaling, Spec
from .ties import untied
from .verify import verify_spec
from .weights import require_module, require_weights

_CACHE: OrderedDict[Any, tuple[Spec, bool]] = OrderedDict()  # and whether it was verified
_CACHE_SIZE = 256
_TRACING = threading.RLock()  # torch.export keeps its state in globals


def trace(model: nn.Module, example_input: ExampleInput | None = None, *, verify: bool = True) -> Spec:
    """Find which axes of which parameters must be permuted together.

    The model is exported with :func:`torch.export.export` and its graph interpreted on abstract tensors whose
    dimensions are unknowns: matrix products tie contracted axes, pointwise operations tie aligned ones, norms attach
    their parameters and statistics, ``Flatten`` multiplies axes and ``cat`` adds them. Inputs and outputs are pinned,
    and so is every axis touched by an operator that is not understood.

    Args:
        model: Any module that ``torch.export`` can export. It is not changed; an eval-mode copy is traced.
        example_input: A tensor, or a tuple of positional arguments, or a dict of keyword arguments. May be omitted
            where the first layers tell its shape.
        verify: Apply a random element of the group found and compare outputs in float64. Skipped on the meta device.

    Returns:
        The :class:`Spec`; ``print(spec)`` shows the groups and why the pinned ones are pinned. Networks of one
        architecture are traced once.

    Example:
        >>> from torch import nn
        >>> trace(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)))
        Spec(3 groups, 1 free, 4 parameters)
    """
    require_module(model)
    if not tensors_of(model):
        raise ValueError(f"{type(model).__name__} has no parameters, so it has no symmetry to find")
    require_weights(tensors_of(model))
    key = architecture_key(model, example_input)
    spec, verified = _remembered(key)
    if spec is not None and (verified or not verify):
        return spec
    with _TRACING:
        spec, verified = _remembered(key)  # another thread may have been faster
        if spec is not None and (verified or not verify):
            return spec
        if example_input is None:
            example_input = usual_input(model)
        args, kwargs = as_call(example_input)
        if spec is None:
            program = export(model, args, kwargs)
            key = None if measured(program, args, kwargs) else key  # with other values, another symmetry
            spec = _interpret(program, model)
        if verify and not any(t.is_meta for t in tensors_of(model).values()):
            verify_spec(model, spec, args, kwargs)
        if verify and key is not None:
            remember(key, spec)
        if key is not None:
            _CACHE[key] = (spec, verify)
            while len(_CACHE) > _CACHE_SIZE:
                _CACHE.popitem(last=False)
    return spec


def _remembered(key: Hashable | None) -> tuple[Spec | None, bool]:
    """What is known of an architecture: its Spec, and whether that was verified."""
    found = _CACHE.get(key) if key is not None else None
    if found is None:
        return None, False
    with suppress(KeyError):  # another thread may just have dropped it
        _CACHE.move_to_end(key)
    return found


def _interpret(program: torch.export.ExportedProgram, model: nn.Module) -> Spec:
    tensors = tensors_of(model)
    signature = program.graph_signature
    first = {id(t): name for name, t in untied(tensors).items()}  # tied entries go by the name of the first
    targets = {
        node: first[id(tensors[name])] if name in tensors else name
        for node, name in {**signature.inputs_to_parameters, **signature.inputs_to_buffers}.items()
    }
    inputs = set(signature.user_inputs)
    state, env = ops.State(), {}
    params: dict[str, ops.Value] = {}
    order: dict[str, None] = {}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            env[node] = _placeholder(node, targets.get(node.name), node.name in inputs, params, tensors)
        elif node.op == "call_function":
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: _used(env[n]))
            for value in ops.values_in([args, kwargs]):
                if value.param is not None:
                    order.setdefault(value.param)
            if node.target is operator.getitem:
                env[node] = args[0][args[1]]
            else:
                out = ops.apply(state, node, args if not kwargs else _positional(node.target, args, kwargs))
                number = node.meta.get("val")
                env[node] = number if isinstance(number, (int, float)) else out
        elif node.op == "get_attr":  # the body of a higher-order operator, which pins what it touches
            env[node] = None
        elif node.op == "output":
            for value in ops.values_in(fx.node.map_arg(list(node.args), env.__getitem__)):
                for dim in value.dims if value.names is None else [*value.dims, value.names]:
                    pin(dim, OUTPUT)
    return _build_spec(program, env, state, params, order, tensors)


def _used(value: Any) -> Any:
    """A value as the argument of one operator."""
    if not isinstance(value, ops.Value) or value.param is not None:
        return value
    return replace(value, dims=renewed(value.dims))


def _positional(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Put keyword arguments where the operator's schema has them."""
    if not isinstance(target, torch._ops.OpOverload):  # higher-order operators have no schema
        return [*args, *kwargs.values()]
    names = [a.name for a in target._schema.arguments]
    filled = [*args, *(a.default_value for a in target._schema.arguments[len(args) :])]
    for name, value in kwargs.items():
        filled[names.index(name)] = value
    return filled


def _placeholder(
    node: fx.Node, name: str | None, is_input: bool, params: dict[str, ops.Value], tensors: Mapping[str, Tensor]
) -> Any:
    value = node.meta.get("val")
    if not isinstance(value, Tensor):
        return value
    if name is not None and name in tensors:
        # Each axis of a parameter is its own unknown, bound to the group it will belong to; nothing speaks against
        # permuting it in another way in every place of the other axes, yet.
        axes = [Atom(s) for s in map(int, value.shape)]
        for axis in axes:
            axis.inside = tuple(other for other in axes if other is not axis)
        dims: list[Dim] = [((Atom(a.size, bound=((a,),), origin=(name, k)),),) for k, a in enumerate(axes)]
        params[name] = ops.Value(dims, param=name)
        return params[name]
    return ops.Value([fixed(int(s), INPUT if is_input else ops.CONSTANT) for s in value.shape])


def _build_spec(
    program: torch.export.ExportedProgram,
    env: Mapping[fx.Node, Any],
    state: ops.State,
    params: dict[str, ops.Value],
    order: Mapping[str, None],
    tensors: Mapping[str, Tensor],
) -> Spec:
    owner = {id(tensors[name]): name for name in order}
    for name, tensor in tensors.items():  # tied entries have the axes of the one the graph uses
        if id(tensor) in owner:
            params[name] = params[owner[id(tensor)]]
    anchor([value.dims for name, value in params.items() if name in order])
    names = GroupNames()
    ordered = [*order, *(name for name in tensors if name not in order)]
    for name in ordered:
        for k, dim in enumerate(params[name].dims if name in params else []):
            names.visit(name, k, dim, reads=state.reads.get(owner.get(id(tensors[name]), name)) == k)
    entries = []
    for name in ordered:
        known = owner.get(id(tensors[name]), name)
        if name in params and known in order:
            axes = tuple(names.axis(dim) for dim in params[name].dims)
        else:
            axes = tuple(Axis(((s,),)) for s in tensors[name].shape)
        edges = sum(bool(axis.groups) for axis in axes) > 1
        entries.append(
            Param(
                name,
                axes,
                role=state.roles.get(known, "weight" if edges else "other"),
                reads=state.reads.get(known, 1 if edges else None),
                block=state.blocks.get(known),
            )
        )
    groups = names.groups({g for p in entries for axis in p.axes for g in axis.groups})
    found = find_scalings(program, env, names, Spec(groups, entries))
    tied: dict[str, list[str]] = {}
    for name, tensor in tensors.items():
        tied.setdefault(owner.get(id(tensor), name), []).append(name)
    return Spec(groups, entries, [_with_tied(scaling, tied) for scaling in found])


def _with_tied(scaling: Scaling, tied: Mapping[str, Sequence[str]]) -> Scaling:
    """The scaling with every name of the parameters it scales."""

    def names(slots: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        return tuple((name, dim) for known, dim in slots for name in tied[known])

    return Scaling(scaling.group, names(scaling.up), names(scaling.down))
