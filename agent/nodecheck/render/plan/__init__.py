"""A plan: for the terminal, and as a page."""
