"""Neural networks as computation graphs with a symmetry group.

    nn.Module → trace → Spec → WeightGraph

``wsgraph`` knows what a network is and nothing about alignment; :mod:`align` builds on it.
"""

from . import augment as augment
from . import testing as testing
from .draw import draw as draw
from .graph import WeightGraph as WeightGraph
from .graph import to_graph as to_graph
from .nn import Encoder as Encoder
from .nn import EncoderConfig as EncoderConfig
from .permutation import Permutation as Permutation
from .processor import limit_instructions
from .spec import Axis as Axis
from .spec import Group as Group
from .spec import Param as Param
from .spec import Spec as Spec
from .trace import trace as trace

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

limit_instructions()  # before the first product; that can only be later, so every command and every user is served
