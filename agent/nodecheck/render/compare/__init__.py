"""Two reports beside each other: for the terminal, and as a page."""
