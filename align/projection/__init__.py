"""From scores to permutations: soft ones that can be differentiated, and hard ones."""
