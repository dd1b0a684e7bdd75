"""A watched engine: why it is slow, at a terminal, and as one line for each window."""
