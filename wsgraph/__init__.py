"""Neural networks as computation graphs with a symmetry group.

    nn.Module → trace → Spec → WeightGraph

``wsgraph`` knows what a network is and nothing about alignment; :mod:`align` builds on it. Importing it costs next to
nothing: each name brings what it needs when it is first used.
"""

from typing import TYPE_CHECKING

from .lazy import attach
from .processor import limit_instructions

__all__ = [
    "Axis",
    "Encoder",
    "EncoderConfig",
    "Group",
    "Param",
    "Permutation",
    "Spec",
    "WeightGraph",
    "augment",
    "draw",
    "testing",
    "to_graph",
    "trace",
]

if TYPE_CHECKING:
    from . import augment as augment
    from . import nn as nn
    from . import ops as ops
    from . import testing as testing
    from .drawing import draw as draw
    from .graph import WeightGraph as WeightGraph
    from .graph import to_graph as to_graph
    from .nn import Encoder as Encoder
    from .nn import EncoderConfig as EncoderConfig
    from .permutation import Permutation as Permutation
    from .spec import Axis as Axis
    from .spec import Group as Group
    from .spec import Param as Param
    from .spec import Spec as Spec
    from .tracing import trace as trace
    from .version import __version__ as __version__
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Axis": ".spec",
            "Encoder": ".nn",
            "EncoderConfig": ".nn",
            "Group": ".spec",
            "Param": ".spec",
            "Permutation": ".permutation",
            "Spec": ".spec",
            "WeightGraph": ".graph",
            "__version__": ".version",
            "augment": ".augment",
            "draw": ".drawing",
            "nn": ".nn",
            "ops": ".ops",
            "testing": ".testing",
            "to_graph": ".graph",
            "trace": ".tracing",
        },
    )

limit_instructions()  # before the first product; that can only be later, so every command and every user is served
