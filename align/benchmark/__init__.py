"""Measurements as scripts: ``python -m align.benchmark --help``."""
