"""The classic aligners. Each takes two networks and returns an :class:`~align.Alignment`."""
