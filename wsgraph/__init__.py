"""Neural networks as computation graphs with a symmetry group."""
