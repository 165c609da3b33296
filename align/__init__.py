"""Find, judge and use the permutations that make two networks comparable."""

from .alignment import Alignment as Alignment
from .deep_align import DeepAlign as DeepAlign
from .deep_align import DeepAlignConfig as DeepAlignConfig

__all__ = ["Alignment", "DeepAlign", "DeepAlignConfig"]
