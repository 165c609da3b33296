"""The classic aligners. Each takes two networks and returns an :class:`~align.Alignment`."""

from .weight_matching import weight_matching as weight_matching
