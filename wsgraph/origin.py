"""Where a graph comes from: the module that its tensors run in, and what that module reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from torch import Tensor, nn

from .inputs import infer_example_input, only_tensor
from .modules import with_tensors
from .shell import shell

if TYPE_CHECKING:
    from .inputs import ExampleInput


@dataclass(frozen=True, eq=False)
class Origin:
    """The module that a graph was made of; its copies know it too, permuted ones and other tensors of its Spec alike.

    A file has none: a pickled graph is data, and whoever reads it would have to run what somebody else wrote.

    Attributes:
        module: As it was given. It is neither changed nor run, see :meth:`running`.
        example_input: Given with it.
    """

    module: nn.Module
    example_input: ExampleInput | None = None

    def running(self, tensors: Mapping[str, Tensor]) -> nn.Module:
        """A private module in eval mode that holds these tensors, and copies of those that forward may write to."""
        return shell(with_tensors(self.module, tensors)).eval()

    @cached_property
    def shape(self) -> tuple[int, ...] | None:
        """Of one input; ``None`` of a network that reads no, or not only, one tensor of real numbers."""
        example = only_tensor(self.module, self.example_input)
        if example is None:
            try:
                example = infer_example_input(self.module)
            except ValueError:  # nobody could say
                return None
        real = isinstance(example, Tensor) and example.is_floating_point() and example.dim() > 1
        return tuple(example.shape[1:]) if real else None

    def __deepcopy__(self, memo: object) -> Origin:
        return self

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()
