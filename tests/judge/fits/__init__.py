"""Room of each kind."""
