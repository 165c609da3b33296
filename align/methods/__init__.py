"""The aligners. Each takes two networks and returns an :class:`~align.Alignment`; see :mod:`align.methods.registry`."""

from . import builtin as builtin  # fills the registry, whichever of these modules is imported first
from .registry import METHODS as METHODS
from .registry import Method as Method
from .registry import Request as Request
from .registry import register as register
from .registry import run as run

__all__ = ["METHODS", "Method", "Request", "register", "run"]
