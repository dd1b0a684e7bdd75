"""The libraries of a Python interpreter that serves models."""

DEADLINE_SECONDS = 600.0
"""After this the probe's child is killed."""
