"""Find, judge and use the permutations that make two networks comparable.

WeightGraph → Encoder → scores → projection → Alignment → apply → merged → barrier

Importing it costs next to nothing: each name brings what it needs when it is first used.
"""

from typing import TYPE_CHECKING

from wsgraph.lazy import attach

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

if TYPE_CHECKING:
    from wsgraph.version import __version__ as __version__

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
else:
    MODULES = (
        *(
            "alignment",
            "data",
            "deep_align",
            "evidence",
            "federated",
            "judging",
            "learning",
            "many",
            "matching",
            "merging",
        ),
        *("methods", "plots", "progress", "projection", "running", "zoo"),
    )
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Alignment": ".alignment",
            "Barrier": ".judging.barrier",
            "DeepAlign": ".deep_align",
            "DeepAlignConfig": ".deep_align",
            "Universe": ".many",
            "__version__": "wsgraph.version",
            "barrier": ".judging.barrier",
            "distance": ".judging.distance",
            "match": ".matching",
            "match_many": ".many",
            "merge": ".merging.merge",
            "pairwise_distance": ".judging.distance",
            **{name: f".{name}" for name in MODULES},
        },
    )
