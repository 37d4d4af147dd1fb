"""A small client of the proxy: publish, subscribe, acknowledge."""
