"""Sizes that depend on values (a mask that selects, the number of distinct nodes): a run on the example tells them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree

from .randomness import OwnDraws

SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def has_unknown_size(node: fx.Node) -> bool:
    """Whether the value of a node, or a size of it, is a symbol in place of a number."""
    values = _pytree.tree_leaves(node.meta.get("val"))
    return any(isinstance(v, SYMBOLS) for v in values) or any(
        isinstance(size, torch.SymInt) for v in values if isinstance(v, Tensor) for size in v.shape
    )


class _Measuring(fx.Interpreter):
    """Runs a graph and leaves with every node what it computes: tensors without their values, and numbers."""

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if has_unknown_size(n):
            n.meta["val"] = _pytree.tree_map_only(Tensor, lambda t: t.to("meta"), result)
        return result


@torch.no_grad()
def measure(program: torch.export.ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Replace every symbol in the graph by the number it is on this input."""
    args, kwargs = _pytree.tree_map_only(Tensor, Tensor.clone, (args, kwargs))
    with OwnDraws():
        _Measuring(program.graph_module).run(*program._graph_module_flat_inputs(args, kwargs))
