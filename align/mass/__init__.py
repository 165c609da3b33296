"""Mass alignment: thousands of pairs of networks from files, in many processes or on a cluster, into one table."""

from typing import TYPE_CHECKING

from wsgraph.lazy import attach

__all__ = ["Job", "Results", "align_all", "pairs_of"]

if TYPE_CHECKING:
    from .driver import align_all as align_all
    from .job import Job as Job
    from .pairs import pairs_of as pairs_of
    from .results import Results as Results
else:
    __getattr__, __dir__ = attach(
        __name__, {"Job": ".job", "Results": ".results", "align_all": ".driver", "pairs_of": ".pairs"}
    )
