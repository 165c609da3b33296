"""The paper's experiments, each by one command, beside the paper's own numbers: ``python -m align.benchmark paper``."""
