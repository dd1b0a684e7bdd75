"""A benchmark: for the terminal, and as a page."""
