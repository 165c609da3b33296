"""Find, judge and use the permutations that make two networks comparable."""
