"""Find, judge and use the permutations that make two networks comparable.

WeightGraph → Encoder → scores → projection → Alignment → apply → merged → barrier
"""

from .alignment import Alignment as Alignment
from .deep_align import DeepAlign as DeepAlign
from .deep_align import DeepAlignConfig as DeepAlignConfig
from .judging.barrier import Barrier as Barrier
from .judging.barrier import barrier as barrier
from .judging.distance import distance as distance
from .judging.distance import pairwise_distance as pairwise_distance
from .many import Universe as Universe
from .many import match_many as match_many
from .matching import match as match
from .merging.merge import merge as merge

__all__ = [
    "Alignment",
    "Barrier",
    "DeepAlign",
    "DeepAlignConfig",
    "Universe",
    "barrier",
    "distance",
    "match",
    "match_many",
    "merge",
    "pairwise_distance",
]
