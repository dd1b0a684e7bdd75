"""A history: for the terminal, as a page, and as a table for other programs."""
