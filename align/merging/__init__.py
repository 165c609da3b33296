"""One network from several that lie in one basin."""
