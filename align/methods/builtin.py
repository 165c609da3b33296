"""The methods that come with the package."""

from __future__ import annotations

from .activation_matching import activation_matching
from .auto import auto
from .covariance_matching import covariance_matching
from .identity import identity
from .learned import learned
from .registry import Method, register
from .sinkhorn import sinkhorn_rebasin
from .ste import straight_through
from .weight_matching import weight_matching

register(Method("auto", auto))
register(Method("identity", identity))
register(Method("weight_matching", weight_matching, startable=True))
register(Method("covariance_matching", covariance_matching))
register(Method("activation_matching", activation_matching, needs_data=True, needs_modules=True))
register(Method("ste", straight_through, needs_data=True, needs_modules=True, startable=True))
register(Method("sinkhorn", sinkhorn_rebasin, startable=True))  # with cost="l2" it needs neither data nor modules
register(Method("deep_align", learned))
