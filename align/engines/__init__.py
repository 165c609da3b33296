"""Where work is done: in several processes, or on a Ray cluster. The results are the same."""
