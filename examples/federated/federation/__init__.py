"""A federation whose clients are aligned before they are averaged."""
