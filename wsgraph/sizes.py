"""Sizes that depend on values (a mask that selects, the number of distinct nodes): a run on the example tells them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree

from .randomness import OwnDraws

SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def measured(program: torch.export.ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether sizes in the program depend on values; each is then replaced by the number it is on this input."""
    if not any(map(_is_unknown, program.graph.nodes)):
        return False
    args, kwargs = _pytree.tree_map_only(Tensor, Tensor.clone, (args, kwargs))
    with torch.no_grad(), OwnDraws():
        _Measuring(program.graph_module).run(*program._graph_module_flat_inputs(args, kwargs))
    return True


def _is_unknown(node: fx.Node) -> bool:
    """Whether the value of a node, or a size of it, is a symbol in place of a number."""
    values = _pytree.tree_leaves(node.meta.get("val"))
    sizes = [size for value in values if isinstance(value, Tensor) for size in value.shape]
    return any(isinstance(number, SYMBOLS) for number in (*values, *sizes))


class _Measuring(fx.Interpreter):
    """Runs a graph and leaves with every node what it computes: tensors without their values, and numbers."""

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if _is_unknown(n):
            n.meta["val"] = _pytree.tree_map_only(Tensor, lambda t: t.to("meta"), result)
        return result
