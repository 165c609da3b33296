"""How the learned aligner comes about: pairs of networks, losses, steps, and what a run leaves behind."""
