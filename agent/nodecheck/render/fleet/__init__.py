"""A fleet: for the terminal, and as a page."""
