"""A report: for the terminal, and as a page."""
