"""How good an alignment is: losses along the line between networks, distances, and tables of both."""
